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
		n := &casetest.Notes{}
		n.Begin()
		began := time.Now()
		n.Note("b in %s", "x")
		n.Note("a\nc")
		time.Sleep(time.Second)
		n.Logger().Named("x").With(zap.Int("n", 1)).Warn("It failed", zap.String("pod", "a"), zap.Error(errors.New("broken")))
		assert.Equal(t, "0s b in x\n0s a; c\n1s warn: It failed: broken\n", n.Lines(3))
		n.Note("last")
		n.Note("more")
		assert.Equal(t, "0s b in x\nand 1 others\n1s warn: It failed: broken\n1s last\n1s more\n", n.Lines(4))
		assert.Equal(t, "1s", n.Since(began.Add(time.Second)))
		assert.Equal(t, "-", n.Since(time.Time{}))
		n.Begin()
		assert.Empty(t, n.Lines(3))
	})
}
