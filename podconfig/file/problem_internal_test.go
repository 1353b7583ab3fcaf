// SPDX-License-Identifier: Apache-2.0

package file

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

func TestReporter(t *testing.T) {
	var told []string
	r := &reporter{told: map[subject]string{}, problem: func(path string, err error) {
		if err == nil {
			told = append(told, path+" ok")
			return
		}
		told = append(told, err.Error())
	}}
	step := func(want ...string) { // since the last step
		t.Helper()
		assert.Equal(t, want, told)
		told = nil
	}
	r.update(map[string]error{"b": errors.New("x"), "a": errors.New("x")})
	step("a: x", "b: x")
	r.update(map[string]error{"b": errors.New("x"), "a": errors.New("y")})
	step("a: y")
	r.update(map[string]error{})
	step("a ok", "b ok")
	r.set(subject{path: "a", watch: true}, errors.New("w"))
	r.update(map[string]error{"a": errors.New("x")})
	step("a: w", "a: x")
	r.set(subject{path: "a", watch: true}, nil)
	step()
	r.update(nil)
	step("a ok")
	r.update(map[string]error{"a\nb\xff": errors.New("x")})
	step(`"a\nb\xff": x`)
}

func TestProblemsAreLoggedWhereNobodyAsks(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	r := &reporter{told: map[subject]string{}, log: zap.New(core)}
	r.update(map[string]error{"a": errors.New("x")})
	r.update(nil)
	assert.Equal(t, []string{"manifest is not used", "manifest recovered"},
		[]string{logs.All()[0].Message, logs.All()[1].Message})
	assert.Equal(t, map[string]any{"path": "a", "error": "a: x"}, logs.All()[0].ContextMap())
}
