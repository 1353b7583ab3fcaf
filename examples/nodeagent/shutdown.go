// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/pflag"
	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/shutdown"
)

// shutdownFlags are the flags for the shutdown of pods. Names and meaning are those of the
// kubelet's configuration.
type shutdownFlags struct {
	total, critical time.Duration
	byPriority      map[string]int64 // seconds
	stop            time.Duration    // without the fields above

	endPods func() bool // set by follow
}

func (s *shutdownFlags) register(set *pflag.FlagSet) {
	set.DurationVar(&s.total, "shutdown-grace-period", 0, "stop the pods when the agent ends, within this time: first ordinary pods, then critical pods; 0 = all at once, each within its own grace period")
	set.DurationVar(&s.critical, "shutdown-grace-period-critical-pods", 0, "part of --shutdown-grace-period for pods of priority 2000000000 and more")
	set.StringToInt64Var(&s.byPriority, "shutdown-grace-period-by-pod-priority", nil, "instead of --shutdown-grace-period: seconds for the pods from each priority on, as `priority=seconds,...`, lowest first")
	set.DurationVar(&s.stop, "stop-timeout", 0, "instead of --shutdown-grace-period: stop the pods when the agent ends, all at once and each within its own grace period, and wait no longer than this; pods that still run then run on; 0 = wait for all pods")
}

// asked reports whether any shutdown flag is set.
func (s *shutdownFlags) asked() bool { return s.inOrder() || s.stop != 0 }

// inOrder reports whether pods are stopped class by class.
func (s *shutdownFlags) inOrder() bool {
	return s.total != 0 || s.critical != 0 || len(s.byPriority) > 0
}

// check refuses invalid values and combinations.
func (s *shutdownFlags) check() error {
	switch {
	case s.stop < 0:
		return fmt.Errorf("--stop-timeout %s: want 0 or more", s.stop)
	case s.stop > 0 && s.inOrder():
		return errors.New("--stop-timeout goes without --shutdown-grace-period and the like, which say how long everything takes")
	}
	_, err := s.classes()
	return err
}

// classes returns the priority classes that the flags define.
func (s *shutdownFlags) classes() ([]shutdown.Class, error) {
	if len(s.byPriority) == 0 {
		classes, err := shutdown.GracePeriods(s.total, s.critical)
		if err != nil {
			return nil, fmt.Errorf("--shutdown-grace-period, --shutdown-grace-period-critical-pods: %w", err)
		}
		return classes, nil
	}
	if s.total != 0 || s.critical != 0 {
		return nil, errors.New("--shutdown-grace-period-by-pod-priority goes without --shutdown-grace-period and --shutdown-grace-period-critical-pods")
	}
	var classes []shutdown.Class
	for text, seconds := range s.byPriority {
		priority, err := strconv.ParseInt(text, 10, 32)
		if err != nil || seconds < 1 || seconds > int64(24*time.Hour/time.Second) {
			return nil, fmt.Errorf("--shutdown-grace-period-by-pod-priority %s=%d: want a priority, and seconds from 1 to a day", text, seconds)
		}
		classes = append(classes, shutdown.Class{Priority: int32(priority), Grace: time.Duration(seconds) * time.Second})
	}
	return classes, nil
}

// follow watches for SIGUSR1. After the signal, the agent stops its pods when it ends, in spite of
// --keep-pods. The removal of a deb or rpm package sends the signal.
func (s *shutdownFlags) follow(log *zap.Logger) {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGUSR1)
	s.endPods = sync.OnceValue(func() bool {
		return len(asked) > 0 || s.inOrder() && machineStops(log)
	})
}

// stopsPods reports whether the agent stops the pods when the agent ends.
func (f *flags) stopsPods() bool {
	return !f.keepPods || f.shutdown.endPods()
}

// stopTime returns the longest duration of the shutdown of an agent that ends, 0 if there is no limit.
func (f *flags) stopTime() time.Duration {
	if !f.stopsPods() {
		return 0
	}
	return f.shutdown.longest()
}

// machinePatience limits the question to systemd, which answers in milliseconds.
const machinePatience = 5 * time.Second

// machineStops reports whether systemd shuts the machine down. systemd stops the agent's unit early in
// a shutdown, before the container runtime, and leaves the containers to the agent. So the agent needs no
// inhibitor lock of logind.
func machineStops(log *zap.Logger) bool {
	ctx, cancel := context.WithTimeout(context.Background(), machinePatience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "systemctl", "is-system-running")
	cmd.WaitDelay = time.Second
	said, err := cmd.Output()
	if _, answered := errors.AsType[*exec.ExitError](err); err != nil && !answered { // 1: another state than running
		log.Warn("cannot ask systemd whether the machine shuts down; the pods are kept", zap.Error(err))
	}
	return strings.TrimSpace(string(said)) == "stopping"
}

// longest returns the longest duration of the shutdown, 0 if there is no limit.
func (s *shutdownFlags) longest() (sum time.Duration) {
	classes, _ := s.classes()
	sum = s.stop
	for _, c := range classes {
		sum += c.Grace
	}
	return sum
}
