// SPDX-License-Identifier: Apache-2.0

//go:build !noapiserver

package main

import (
	"slices"

	"github.com/go-logr/logr"
	"go.uber.org/zap"
	"k8s.io/klog/v2"
)

// receiveKlog sends the messages that packages of Kubernetes log through klog to the agent's log. The
// destination of klog is global, so the program sets it, before another goroutine logs. Most messages
// are about clients of --port, which have been told: they are debug messages here.
func receiveKlog(log *zap.Logger) {
	klog.SetLoggerWithOptions(logr.New(klogSink{log.Named("klog").Sugar()}), klog.ContextualLogger(true))
}

// klogSink implements logr.LogSink.
type klogSink struct{ log *zap.SugaredLogger }

func (klogSink) Init(logr.RuntimeInfo) {}

// Enabled leaves out messages with a verbosity, as the kubelet does without the flag -v.
func (klogSink) Enabled(verbosity int) bool { return verbosity == 0 }

func (s klogSink) Info(_ int, message string, pairs ...any) { s.log.Debugw(message, pairs...) }

func (s klogSink) Error(err error, message string, pairs ...any) {
	s.log.Debugw(message, slices.Concat(pairs, []any{zap.Error(err)})...)
}

func (s klogSink) WithValues(pairs ...any) logr.LogSink { return klogSink{s.log.With(pairs...)} }

func (s klogSink) WithName(name string) logr.LogSink { return klogSink{s.log.Named(name)} }
