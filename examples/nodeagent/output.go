// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
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
	header   string

	mu struct {
		sync.Mutex
		drawn  int // lines on the screen that the next frame replaces
		notice string
	}
}

func newOutput(f flags) (*output, error) {
	level := zapcore.InfoLevel
	if f.verbosity > 0 {
		level = zapcore.DebugLevel
	}
	config := zap.NewProductionEncoderConfig()
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
	problems := &problems{}
	core := zapcore.NewTee(zapcore.NewCore(encoder, zapcore.Lock(file), level), zapcore.NewCore(problemEncoder(), problems, zapcore.WarnLevel))
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
		where = fmt.Sprintf("http://%s:%d/pods", f.address, f.port)
	}
	o.header = fmt.Sprintf("keelson on node %s · pods from %s · %s · logs in %s", f.node, f.origins(), where, f.logs)
	o.log.Info("node agent started", zap.String("node", f.node), zap.String("manifests", f.origins()),
		zap.String("pods", where), zap.String("logs", f.logs))
}

// stopping says what the first Ctrl-C does.
func (o *output) stopping(f flags) {
	notice := "stopping the pods; press Ctrl-C again to leave at once, and them running"
	if f.keepPods {
		notice = "leaving; the pods keep running"
	}
	o.mu.Lock()
	o.mu.notice = notice
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
	lines := append([]string{cut(o.header, width), ""}, table(agent.Pods(), time.Now(), width)...)
	if last := o.problems.last(); len(last) > 0 {
		lines = append(lines, "")
		for _, p := range last {
			lines = append(lines, cut(p, width))
		}
	}
	if o.mu.notice != "" {
		lines = append(lines, "", cut(o.mu.notice, width))
	}
	if len(lines) >= height { // what scrolled away cannot be drawn over
		lines = append(lines[:max(height-2, 1)], "…")
	}
	var b strings.Builder
	if o.mu.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA\r\x1b[J", o.mu.drawn)
	}
	for _, l := range lines {
		b.WriteString(l)
		b.WriteString("\r\n")
	}
	o.mu.drawn = len(lines)
	os.Stdout.WriteString(b.String())
}

// problems keeps the last warnings for the screen.
type problems struct {
	mu struct {
		sync.Mutex
		lines []string
	}
}

const problemsShown = 5

// problemEncoder writes a warning as one short line.
func problemEncoder() zapcore.Encoder {
	return zapcore.NewConsoleEncoder(zapcore.EncoderConfig{
		TimeKey: "ts", MessageKey: "msg", ConsoleSeparator: "  ",
		EncodeTime:     zapcore.TimeEncoderOfLayout(time.TimeOnly),
		EncodeDuration: zapcore.StringDurationEncoder,
	})
}

// Write takes one encoded warning.
func (p *problems) Write(line []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.lines = append(p.mu.lines, oneLine(string(line)))
	if extra := len(p.mu.lines) - problemsShown; extra > 0 {
		p.mu.lines = p.mu.lines[extra:]
	}
	return len(line), nil
}

// Sync does nothing; there is nothing behind the screen.
func (p *problems) Sync() error { return nil }

func (p *problems) last() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.mu.lines...)
}
