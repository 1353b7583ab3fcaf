// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package crashtest

import (
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

var (
	killsFlag = flag.Int("kills", 0, "how many agents are killed; 0 means 60, fewer where that takes long, or 1000 with KEELSON_E2E=1")
	seedFlag  = flag.Uint64("seed", 0, "of the random choices; 0 means another one each time")
)

// ownMountsEnv is set in a process with a mount namespace of its own.
const ownMountsEnv = "KEELSON_CRASH_OWN_MOUNTS"

func TestMain(m *testing.M) {
	if os.Getenv(planEnv) != "" {
		os.Exit(victimMain())
	}
	switch own := os.Getenv(ownMountsEnv) != ""; {
	case own:
		// Mounts made here stay in this namespace; unmounts outside propagate into it.
		if err := unix.Mount("", "/", "", unix.MS_SLAVE|unix.MS_REC, ""); err != nil {
			fmt.Fprintln(os.Stderr, "make mounts private:", err)
			os.Exit(1)
		}
	case os.Geteuid() == 0:
		if code, ok := runWithOwnMounts(); ok {
			os.Exit(code)
		}
	}
	os.Exit(m.Run())
}

// runWithOwnMounts runs this program again in a mount namespace of its own; false if this is not
// permitted.
func runWithOwnMounts() (code int, ok bool) {
	runtime.LockOSThread() // Pdeathsig refers to the thread
	defer runtime.UnlockOSThread()
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(os.Environ(), ownMountsEnv+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return 0, false
	}
	err := cmd.Wait()
	if exit, failed := errors.AsType[*exec.ExitError](err); failed && exit.ExitCode() > 0 {
		return exit.ExitCode(), true
	}
	if err != nil {
		return 1, true
	}
	return 0, true
}

// A default run ends after defaultKills kills, or after defaultTime, but not before fewestKills
// kills: under the race detector an agent takes half a second.
const (
	defaultKills, fewestKills = 60, 12
	defaultTime               = 6 * time.Second
)

// killsPerLife is the number of kills after which all pods end, and nothing may be left.
const killsPerLife = 20

// TestKilledAtSystemCalls is the crash test. Whenever and however often agents are killed, volumes
// of live pods are never emptied or replaced, files from objects are of the same version, and the
// user's data is unchanged. At the end nothing is left.
func TestKilledAtSystemCalls(t *testing.T) {
	kills, seed, limit := *killsFlag, *seedFlag, time.Duration(math.MaxInt64)
	switch {
	case kills == 0 && os.Getenv("KEELSON_E2E") == "1":
		kills = 1000
	case kills == 0:
		kills, limit = defaultKills, defaultTime
	}
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-kills %d -seed %d", kills, seed)
	h := newHunt(t, rand.New(rand.NewPCG(seed, 0)))
	began := time.Now()
	enough := func() bool {
		n := h.total()
		return n >= kills || n >= fewestKills && time.Since(began) > limit
	}
	for !enough() {
		for n := 0; n < killsPerLife && !enough(); n++ {
			h.kill()
		}
		h.letLive(h.world.end())
	}
	h.report(time.Since(began))
	for p := range phases {
		require.NotZero(t, h.phases[p], "no agent was killed during %s", p)
	}
}
