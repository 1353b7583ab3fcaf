// SPDX-License-Identifier: Apache-2.0

package main

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/runtime/cri"
)

func TestRuntimeFlags(t *testing.T) {
	manifests, socket := t.TempDir(), "--container-runtime-endpoint=unix:///s"
	for name, c := range map[string]struct {
		args []string
		want cri.Options
		err  string
	}{
		"none":           {args: []string{socket}},
		"classes":        {args: []string{socket, "--runtime-classes", "kata=kata-qemu,gvisor=runsc"}, want: cri.Options{RuntimeHandlers: map[string]string{"kata": "kata-qemu", "gvisor": "runsc"}}},
		"seccomp":        {args: []string{socket, "--seccomp-default"}, want: cri.Options{SeccompDefault: true}},
		"swap":           {args: []string{socket, "--swap-behavior", "LimitedSwap"}, want: cri.Options{Swap: cri.LimitedSwap}},
		"throttling":     {args: []string{socket, "--memory-throttling-factor", "0.8"}, want: cri.Options{MemoryQoS: &cri.MemoryQoS{Reservation: cri.NoReservation, ThrottlingFactor: 0.8}}},
		"reservation":    {args: []string{socket, "--memory-reservation-policy", "TieredReservation"}, want: cri.Options{MemoryQoS: &cri.MemoryQoS{Reservation: cri.TieredReservation}}},
		"odd policy":     {args: []string{socket, "--memory-reservation-policy", "All"}, err: `--memory-reservation-policy "All": want None or TieredReservation`},
		"processes":      {args: []string{"--seccomp-default"}, err: "are for a container runtime"},
		"odd swap":       {args: []string{socket, "--swap-behavior", "all"}, err: `--swap-behavior "all": want NoSwap or LimitedSwap`},
		"too much":       {args: []string{socket, "--memory-throttling-factor", "2"}, err: "--memory-throttling-factor 2: want 0 to 1"},
		"no quantity":    {args: []string{"--container-log-max-size", "much"}, err: `"--container-log-max-size" flag: quantities must match`},
		"no log at all":  {args: []string{"--container-log-max-size", "0"}, err: `"--container-log-max-size" flag: want more than 0`},
		"a single file":  {args: []string{"--container-log-max-files", "1"}, err: "--container-log-max-files 1: want 2 or more"},
		"bounds of logs": {args: []string{"--container-log-max-size", "4Ki", "--container-log-max-files", "2"}},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := parseFlags(append([]string{manifests}, c.args...))
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				return
			}
			require.NoError(t, err)
			var got cri.Options
			f.cri.apply(&got)
			if len(got.RuntimeHandlers) == 0 {
				got.RuntimeHandlers = nil
			}
			assert.Equal(t, c.want, got)
		})
	}
}

// TestLogsOfContainersAreBounded: the flags reach the shims of the process runtime.
func TestLogsOfContainersAreBounded(t *testing.T) {
	t.Parallel()
	s := newStation(t, backends["process"])
	manifest, _ := s.service("chatty", "for i in $(seq 200); do echo a line of thirty characters; done; sleep 1000")
	s.write("chatty.yaml", manifest)
	s.start("--container-log-max-size", "1Ki", "--container-log-max-files", "3")
	s.waitPhase("chatty-n", v1.PodRunning)
	logs := filepath.Join(s.dir, "root", "logs")
	s.eventually("two files of the log are rotated", func() bool {
		files, err := filepath.Glob(filepath.Join(logs, "*", "*", "*.log*"))
		return err == nil && len(files) == 3
	})
}
