// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/keelson-dev/keelson/runtime/process/internal/record"
	"github.com/keelson-dev/keelson/runtime/process/internal/stage"
)

// pastaFile is the file that pasta writes when the network is ready.
const pastaFile = "pasta.pid"

// pastaTime bounds the wait for pasta, which needs some hundredths of a second.
const pastaTime = 20 * time.Second

// keeper keeps the network of a pod: a process in the pod's network namespace, and pasta.
type keeper struct {
	ended  chan os.Signal // SIGCHLD
	asked  chan os.Signal
	inside int // PID
	pasta  *os.Process
	said   [2]int // a pipe with pasta's errors
}

// keepNetwork keeps a pod's network until the agent asks for the end, or until one of its processes has ended.
func keepNetwork() error {
	tidyDescriptors(record.StatusFD)
	k := keeper{ended: make(chan os.Signal, 1), asked: make(chan os.Signal, 8)}
	signal.Notify(k.ended, unix.SIGCHLD)
	signal.Notify(k.asked, record.StopSignal, record.KillSignal)
	signal.Notify(make(chan os.Signal, 1), others()...)
	var users record.Users
	err := json.Unmarshal([]byte(os.Args[2]), &users)
	if err == nil {
		err = k.start(users, os.Args[3:])
	}
	defer k.end()
	if err != nil {
		return tell(record.Started{Error: err.Error()})
	}
	_ = tell(record.Started{PID: k.inside}) // without a living agent the sandbox is never used
	for k.lives() {
		select {
		case <-k.ended:
		case <-k.asked:
			return nil
		}
	}
	return errors.New("the pod's network has ended")
}

// start makes the network, and returns when the network is ready.
func (k *keeper) start(users record.Users, command []string) (err error) {
	_ = os.WriteFile("/proc/self/comm", []byte(record.NetworkName), 0)
	if k.inside, err = stage.HoldNetwork(users); err != nil {
		return fmt.Errorf("network namespace: %w", err)
	}
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	// Nothing reads the pipe after the start. What does not fit into the pipe is lost, because pasta's end does not
	// block: a pod can make pasta write errors without end.
	if err := unix.Pipe2(k.said[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return err
	}
	says := os.NewFile(uintptr(k.said[1]), "errors of pasta")
	defer says.Close()
	args := append(command, "--pid", filepath.Join(dir, pastaFile))
	if users.Own {
		args = append(args, strconv.Itoa(k.inside))
	} else { // pasta becomes the user nobody by default, who may not see the namespace
		args = append(args, "--runas", "0:0", "--netns", fmt.Sprintf("/proc/%d/ns/net", k.inside))
	}
	k.pasta, err = os.StartProcess(command[0], args, &os.ProcAttr{
		Dir: "/", Env: []string{}, Files: []*os.File{null, null, says},
		Sys: &syscall.SysProcAttr{Setsid: true, Pdeathsig: unix.SIGKILL},
	})
	if err != nil {
		return err
	}
	late := time.After(pastaTime)
	again := time.NewTicker(2 * time.Millisecond)
	defer again.Stop()
	for {
		if raw, err := os.ReadFile(pastaFile); err == nil && len(bytes.TrimSpace(raw)) > 0 {
			return nil
		}
		if !k.lives() {
			return fmt.Errorf("pasta: %s", k.lastLine())
		}
		select {
		case <-again.C:
		case <-k.asked:
			return errors.New("stopped during the start")
		case <-late:
			return fmt.Errorf("pasta: the network is not ready after %v", pastaTime)
		}
	}
}

// lastLine returns the last line that pasta has written about its own work.
func (k *keeper) lastLine() string {
	raw := make([]byte, 64<<10)
	n, _ := unix.Read(k.said[0], raw)
	last := "ended at once"
	for line := range strings.Lines(string(raw[:max(n, 0)])) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasSuffix(line, "bytes to syslog") {
			last = record.Clip(line, 200)
		}
	}
	return last
}

// lives reports whether both processes live.
func (k *keeper) lives() bool { return !hasEnded(k.inside) && !hasEnded(k.pasta.Pid) }

// end kills both processes. The PIDs of children are not reused before they are reaped.
func (k *keeper) end() {
	if k.inside > 0 {
		_ = unix.Kill(k.inside, unix.SIGKILL)
		_, _ = unix.Wait4(k.inside, nil, 0, nil)
	}
	if k.pasta != nil {
		_ = k.pasta.Kill()
		_, _ = k.pasta.Wait()
	}
}
