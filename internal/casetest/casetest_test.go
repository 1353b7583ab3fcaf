// SPDX-License-Identifier: Apache-2.0

package casetest_test

import (
	"errors"
	"strconv"
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

func TestRounds(t *testing.T) {
	if casetest.Raced {
		assert.Equal(t, 200, casetest.Rounds(2000))
		assert.Equal(t, uint64(1), casetest.Rounds[uint64](3))
		assert.NotContains(t, casetest.Codes(), 599)
	} else {
		assert.Equal(t, 2000, casetest.Rounds(2000))
		assert.Len(t, casetest.Codes(), 200)
	}
	assert.Subset(t, casetest.Codes(), []int{400, 409, 429, 500, 504})
	chosen := 0
	for i := range 900 {
		if casetest.Chosen(strconv.Itoa(i)) {
			chosen++
		}
	}
	for i := range 9 {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Cleanup(func() { assert.Equal(t, !casetest.Chosen(t.Name()), t.Skipped()) })
			casetest.SkipUnlessChosen(t)
		})
	}
	if casetest.Raced {
		assert.InDelta(t, 300, chosen, 50)
	} else {
		assert.Equal(t, 900, chosen)
	}
}
