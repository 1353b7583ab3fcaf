// SPDX-License-Identifier: Apache-2.0

//go:build !noapiserver

package main

import (
	"errors"
	"sync/atomic"
	"testing"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

func TestKlogSink(t *testing.T) {
	core, lines := observer.New(zap.DebugLevel)
	log := logr.New(klogSink{zap.New(core).Sugar(), new(atomic.Int32)}).WithName("spdy").WithValues("pod", "web")
	log.Info("connected", "port", 80)
	log.V(1).Info("left out")
	log.Error(errors.New("reset"), "closed", "port", 81)
	all := lines.All()
	assert.Len(t, all, 2)
	assert.Equal(t, "connected", all[0].Message)
	assert.Equal(t, "spdy", all[0].LoggerName)
	assert.Equal(t, map[string]any{"pod": "web", "port": int64(80)}, all[0].ContextMap())
	assert.Equal(t, map[string]any{"pod": "web", "port": int64(81), "error": "reset"}, all[1].ContextMap())
	for _, line := range all {
		assert.Equal(t, zap.DebugLevel, line.Level)
	}
}
