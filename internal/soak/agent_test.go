// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"
)

const nodeName = "n"

// agent is the node agent under test with a supervisor that restarts the agent, like a service
// manager.
type agent struct {
	path, log string
	args      []string
	port      int
	journal   *journal
	// mayEnd reports whether the agent has a reason to end by itself: it cannot start without a
	// container runtime.
	mayEnd func() bool
	wrong  func(format string, args ...any)

	mu    sync.Mutex
	cmd   *exec.Cmd     // nil while none runs
	ended chan struct{} // of cmd
	asked bool          // cmd's end was asked for
	stops bool          // it is not to be started again
	wg    sync.WaitGroup
}

// start starts the agent, unless running.
func (a *agent) start() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.cmd != nil || a.stops {
		return nil
	}
	log, err := os.OpenFile(a.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(a.path, append(a.args, "--read-only-port", strconv.Itoa(a.port), "--hostname-override", nodeName)...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	a.cmd, a.ended, a.asked = cmd, ended, false
	a.journal.say("agent: starts, pid %d", cmd.Process.Pid)
	a.wg.Go(func() {
		err := cmd.Wait()
		a.mu.Lock()
		asked, stops := a.asked, a.stops
		a.cmd = nil
		close(ended)
		a.mu.Unlock()
		a.journal.say("agent: ended: %v", err)
		if asked || stops {
			return
		}
		if !a.mayEnd() {
			a.wrong("the agent ended by itself: %v", err)
		}
		time.Sleep(time.Second)
		if err := a.start(); err != nil {
			a.wrong("the agent cannot be started: %v", err)
		}
	})
	return nil
}

// kill ends the agent by a signal and waits for the end.
func (a *agent) signal(sig syscall.Signal) {
	a.mu.Lock()
	cmd, ended := a.cmd, a.ended
	a.asked = true
	a.mu.Unlock()
	if cmd == nil {
		return
	}
	_ = cmd.Process.Signal(sig)
	select {
	case <-ended:
	case <-time.After(time.Minute):
		_ = cmd.Process.Signal(syscall.SIGQUIT) // its goroutines are in its log then
		a.wrong("the agent did not end within a minute of %s", sig)
		<-ended
	}
}

// stop ends the agent for good.
func (a *agent) stop(sig syscall.Signal) {
	a.mu.Lock()
	a.stops = true
	a.mu.Unlock()
	a.signal(sig)
	a.wg.Wait()
}

// pods asks the agent. An error means that the agent does not run, or has just started.
func (a *agent) pods() (s sample, err error) {
	client := http.Client{Timeout: 10 * time.Second}
	s.began = time.Now()
	r, err := client.Get(fmt.Sprintf("http://127.0.0.1:%d/pods", a.port))
	if err != nil {
		return s, err
	}
	defer r.Body.Close()
	var list v1.PodList
	if err := json.NewDecoder(r.Body).Decode(&list); err != nil {
		return s, err
	}
	s.pods, s.ended = list.Items, time.Now()
	return s, nil
}
