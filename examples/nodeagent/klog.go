// SPDX-License-Identifier: Apache-2.0

//go:build !noapiserver

package main

import (
	"slices"
	"strconv"
	"sync/atomic"

	"github.com/go-logr/logr"
	"go.uber.org/zap"
	"k8s.io/klog/v2"
)

// receiveKlog sends the messages that packages of Kubernetes log through klog to the agent's log,
// as debug messages. Most of them repeat errors that clients of --port have received as answers.
// The destination of klog is global, so the program sets it, before another goroutine logs.
func receiveKlog(log *zap.Logger, v *verbosity) {
	klog.SetLoggerWithOptions(logr.New(klogSink{log.Named("klog").Sugar(), &v.n}), klog.ContextualLogger(true))
}

// setKlogVerbosity sets the verbosity of klog itself, because some packages ask klog whether to
// log.
func setKlogVerbosity(n int) {
	var level klog.Level
	_ = level.Set(strconv.Itoa(n)) // it is a number
}

// klogSink implements logr.LogSink.
type klogSink struct {
	log       *zap.SugaredLogger
	verbosity *atomic.Int32
}

func (klogSink) Init(logr.RuntimeInfo) {}

// Enabled leaves out messages with a larger verbosity than the flag -v, as the kubelet does.
func (s klogSink) Enabled(verbosity int) bool { return verbosity <= int(s.verbosity.Load()) }

func (s klogSink) Info(_ int, message string, pairs ...any) { s.log.Debugw(message, pairs...) }

func (s klogSink) Error(err error, message string, pairs ...any) {
	s.log.Debugw(message, slices.Concat(pairs, []any{zap.Error(err)})...)
}

func (s klogSink) WithValues(pairs ...any) logr.LogSink {
	return klogSink{s.log.With(pairs...), s.verbosity}
}

func (s klogSink) WithName(name string) logr.LogSink { return klogSink{s.log.Named(name), s.verbosity} }
