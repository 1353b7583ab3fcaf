// SPDX-License-Identifier: Apache-2.0

package casetest_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/internal/casetest"
)

func TestNotes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &casetest.Notes{Replace: map[string]string{"/tmp/x": "ROOT"}}
		n.Begin()
		began := time.Now()
		n.Note("b in %s", "/tmp/x/y")
		n.Note("a\nc")
		time.Sleep(time.Second)
		n.Logger().Named("x").With(zap.Int("n", 1)).Warn("It failed", zap.String("pod", "a"), zap.Error(errors.New("broken")))
		assert.Equal(t, "> 0s a; c\n> 0s b in ROOT/y\n> 1s warn: It failed: broken\n", n.Lines("> ", 3))
		n.Note("last")
		n.Note("more")
		assert.Equal(t, "0s a; c\nand 1 others\n1s last\n1s more\n1s warn: It failed: broken\n", n.Lines("", 4))
		assert.Equal(t, "1s", n.Since(began.Add(time.Second)))
		assert.Equal(t, "-", n.Since(time.Time{}))
		n.Begin()
		assert.Empty(t, n.Lines("", 3))
	})
}
