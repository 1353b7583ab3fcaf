// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/term"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodeagent"
)

// output is what a person or a log collector sees. On a terminal it is a live
// table of pods, the last problems below it, and the log in a file; elsewhere
// it is the log on standard error.
type output struct {
	log      *zap.Logger
	live     bool
	file     *os.File  // the log's, on a terminal
	problems *problems // on a terminal
	header   []string

	mu struct {
		sync.Mutex
		last   frame
		notice string
	}
}

func newOutput(f flags) (*output, error) {
	level := zapcore.InfoLevel
	if f.verbosity > 0 {
		level = zapcore.DebugLevel
	}
	config := zap.NewProductionEncoderConfig()
	config.EncodeDuration = zapcore.StringDurationEncoder // "1m0s": a number would need a unit
	config.EncodeTime = zapcore.RFC3339NanoTimeEncoder
	encoder := zapcore.NewJSONEncoder(config)
	if !term.IsTerminal(int(os.Stdout.Fd())) {
		core := zapcore.NewCore(encoder, zapcore.Lock(os.Stderr), level)
		return &output{log: zap.New(core)}, nil
	}
	path := filepath.Join(f.root, "nodeagent.log")
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the log: %w", err)
	}
	problems := &problems{manifests: f.manifests}
	core := zapcore.NewTee(zapcore.NewCore(encoder, zapcore.Lock(file), level), problems)
	return &output{log: zap.New(core), live: true, file: file, problems: problems}, nil
}

func (o *output) close() {
	if o.file != nil {
		o.file.Close()
	}
}

// started says where everything is.
func (o *output) started(f flags) {
	where := "not served"
	if f.port != 0 {
		where = "http://" + net.JoinHostPort(f.address, strconv.Itoa(f.port)) + "/pods"
	}
	o.header = []string{"keelson on node " + f.node, "pods from " + f.origins(), where, "logs in " + f.logs}
	o.log.Info("node agent started", zap.String("node", f.node), zap.String("manifests", f.origins()),
		zap.String("pods", where), zap.String("logs", f.logs))
}

// stopping says what the first Ctrl-C does.
func (o *output) stopping(f flags) {
	notice := "stopping the pods; press Ctrl-C again to leave at once, whatever still runs"
	if f.keepPods {
		notice = "leaving; the pods keep running"
	}
	o.mu.Lock()
	o.mu.notice = notice
	o.mu.Unlock()
}

// ended takes back what stopping has said: there is nobody left to press Ctrl-C for.
func (o *output) ended() {
	o.mu.Lock()
	o.mu.notice = ""
	o.mu.Unlock()
}

// show redraws the table when a pod changes, and once a second for the ages.
func (o *output) show(ctx context.Context, agent *nodeagent.Agent) {
	if !o.live {
		return
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		o.draw(agent)
		select {
		case <-agent.Changed():
		case <-tick.C:
		case <-ctx.Done():
			o.draw(agent)
			return
		}
	}
}

func (o *output) draw(agent *nodeagent.Agent) {
	width, height, err := term.GetSize(int(os.Stdout.Fd()))
	if err != nil {
		width, height = 80, 24
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	next := frame{width: width, height: height}
	next.lines = append(append(wrap(o.header, width), ""), table(agent.Pods(), time.Now(), width)...)
	if last := o.problems.lines(); len(last) > 0 {
		next.add("", "Problems, the latest last; more about them in "+o.file.Name())
		next.add(last...)
	}
	if o.mu.notice != "" {
		next.add("", o.mu.notice)
	}
	os.Stdout.WriteString(next.after(o.mu.last))
	o.mu.last = next
}
