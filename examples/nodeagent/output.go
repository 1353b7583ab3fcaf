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

	"github.com/keelson-dev/keelson/examples/nodeagent/node"
)

// output shows the agent's state. On a terminal it shows a live table of pods and the last
// problems, and writes the log to a file. Otherwise it writes the log to standard error.
type output struct {
	log       *zap.Logger
	verbosity *verbosity
	live      bool
	colours   bool
	file      *os.File  // the log file, on a terminal
	problems  *problems // on a terminal
	header    []string

	mu struct {
		sync.Mutex
		last   frame
		notice string
	}
}

func newOutput(f flags) (*output, error) {
	v := newVerbosity(f.verbosity)
	config := zap.NewProductionEncoderConfig()
	config.EncodeDuration = zapcore.StringDurationEncoder // "1m0s", because a number would need a unit
	config.EncodeTime = zapcore.RFC3339NanoTimeEncoder
	encoder := zapcore.NewJSONEncoder(config)
	if !term.IsTerminal(int(os.Stdout.Fd())) || os.Getenv("TERM") == "dumb" { // a dumb terminal cannot be redrawn
		core := zapcore.NewCore(encoder, zapcore.Lock(os.Stderr), v)
		return &output{log: zap.New(core), verbosity: v}, nil
	}
	path := filepath.Join(f.root, "nodeagent.log")
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the log: %w", err)
	}
	problems := &problems{manifests: f.manifests}
	core := zapcore.NewTee(zapcore.NewCore(encoder, zapcore.Lock(file), v), problems)
	return &output{log: zap.New(core), verbosity: v, live: true, colours: hasColours(os.Getenv("TERM")), file: file, problems: problems}, nil
}

func (o *output) close() {
	if o.file != nil {
		o.file.Close()
	}
}

// started shows the node, the sources, the address and the log folder.
func (o *output) started(f flags) {
	where := "not served"
	if f.port != 0 {
		where = "http://" + net.JoinHostPort(f.address, strconv.Itoa(f.port)) + "/pods"
	}
	o.header = []string{"keelson on node " + f.node, "pods from " + f.origins(), where, "logs in " + f.logs}
	o.log.Info("node agent started", zap.String("node", f.node), zap.String("manifests", f.origins()),
		zap.String("pods", where), zap.String("logs", f.logs))
}

// stopping shows the effect of the first Ctrl-C.
func (o *output) stopping(f flags) {
	notice := "stopping the pods; press Ctrl-C again to leave at once, whatever still runs"
	if !f.stopsPods() {
		notice = "leaving; the pods keep running"
	}
	o.mu.Lock()
	o.mu.notice = notice
	o.mu.Unlock()
}

// ended removes the notice of stopping, because Ctrl-C has no effect any more.
func (o *output) ended() {
	o.mu.Lock()
	o.mu.notice = ""
	o.mu.Unlock()
}

// show redraws the table when a pod changes, and once a second for the column AGE. It calls changed
// when a pod changes.
func (o *output) show(ctx context.Context, agent *node.Agent, changed func()) {
	var ticks <-chan time.Time
	if o.live {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		ticks = tick.C
	}
	for {
		o.draw(ctx, agent)
		select {
		case <-agent.Changed():
			changed()
		case <-ticks:
		case <-ctx.Done():
			o.draw(ctx, agent)
			return
		}
	}
}

// drawPatience is how long a drawing waits for the progress of pulls. The runtime may hang.
const drawPatience = 500 * time.Millisecond

func (o *output) draw(ctx context.Context, agent *node.Agent) {
	if !o.live {
		return
	}
	width, height, err := term.GetSize(int(os.Stdout.Fd()))
	if err != nil {
		width, height = 80, 24
	}
	asked, cancel := context.WithTimeout(ctx, drawPatience)
	pods, pulls := agent.Pods(), agent.Pulls(asked)
	cancel()
	o.mu.Lock()
	defer o.mu.Unlock()
	view := screen{width: width, height: height, header: o.header, pods: pods, pulls: pulls, problems: o.problems.lines(),
		logFile: o.file.Name(), notice: o.mu.notice, now: time.Now()}
	next := frame{width: width, height: height, lines: paint(view.layout(), o.colours)}
	os.Stdout.WriteString(next.after(o.mu.last))
	o.mu.last = next
}
