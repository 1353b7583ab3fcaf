// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"
	v1 "k8s.io/api/core/v1"
)

// notifier reports the agent's state to the service manager with the protocol of sd_notify(3):
// datagrams of NAME=VALUE lines. The methods of a nil notifier do nothing.
type notifier struct {
	send  func(state string) error
	every time.Duration // interval of watchdog messages; 0: no watchdog
	log   *zap.Logger
}

// pulse is the part of node.Agent that the notifier uses.
type pulse interface {
	Alive(ctx context.Context) error
	Pods() []*v1.Pod
}

// newNotifier reads the service manager's environment variables, and unsets them so that containers
// do not inherit them.
func newNotifier(log *zap.Logger) *notifier {
	socket, within, pid := os.Getenv("NOTIFY_SOCKET"), os.Getenv("WATCHDOG_USEC"), os.Getenv("WATCHDOG_PID")
	for _, name := range []string{"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"} {
		_ = os.Unsetenv(name)
	}
	if !strings.HasPrefix(socket, "/") && !strings.HasPrefix(socket, "@") {
		return nil
	}
	n := &notifier{log: log, send: func(state string) error { return sendTo(socket, state) }}
	if usec, err := strconv.ParseInt(within, 10, 64); err == nil && usec > 0 && (pid == "" || pid == strconv.Itoa(os.Getpid())) {
		n.every = time.Duration(usec) * time.Microsecond / 3
	}
	return n
}

// sendTo sends one datagram. A name with the prefix "@" is an abstract socket.
func sendTo(socket, state string) error {
	conn, err := net.Dial("unixgram", socket)
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = conn.Write([]byte(state))
	return err
}

// run sends READY when the agent's loop turns for the first time. Then it sends WATCHDOG
// periodically until ctx ends, each time after the loop has turned again. If the loop hangs, run
// sends nothing.
func (n *notifier) run(ctx context.Context, agent pulse) {
	if n == nil || agent.Alive(ctx) != nil {
		return
	}
	shown := summary(agent.Pods())
	n.say("READY=1", "STATUS="+shown)
	if n.every == 0 {
		return
	}
	tick := time.NewTicker(n.every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		within, cancel := context.WithTimeout(ctx, n.every)
		err := agent.Alive(within)
		cancel()
		switch now := summary(agent.Pods()); {
		case err != nil && ctx.Err() == nil:
			n.log.Error("the loop does not turn: the watchdog of the service manager is not notified", zap.Error(err))
		case err != nil:
		case now != shown:
			shown = now
			n.say("WATCHDOG=1", "STATUS="+now)
		default:
			n.say("WATCHDOG=1")
		}
	}
}

// stopping sends STOPPING, and extends the stop timeout if most, the longest duration of the
// shutdown, is known.
func (n *notifier) stopping(most time.Duration) {
	if n == nil {
		return
	}
	lines := []string{"STOPPING=1", "STATUS=stopping"}
	if most > 0 {
		lines = append(lines, fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d", (most+lastWords).Microseconds()))
	}
	n.say(lines...)
}

// lastWords is the time that the agent may need in addition to the shutdown of pods.
const lastWords = 10 * time.Second

func (n *notifier) say(lines ...string) {
	if err := n.send(strings.Join(lines, "\n")); err != nil {
		n.log.Warn("cannot notify the service manager", zap.Error(err))
	}
}

// summary returns the text for systemctl status.
func summary(pods []*v1.Pod) string {
	running := 0
	for _, p := range pods {
		if p.Status.Phase == v1.PodRunning {
			running++
		}
	}
	return fmt.Sprintf("%d pods, %d running", len(pods), running)
}
