// SPDX-License-Identifier: Apache-2.0

package failurelog_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/keelson-dev/keelson/internal/failurelog"
)

func TestAFailureIsLoggedOnceUntilItChanges(t *testing.T) {
	core, logged := observer.New(zap.InfoLevel)
	silent := failurelog.Log{Logger: zap.New(core), Failed: "cannot write"}
	told := failurelog.Log{Logger: zap.New(core), Failed: "cannot write", Recovered: "written again"}
	full, gone := errors.New("disk full"), errors.New("no disk")
	for _, l := range []*failurelog.Log{&silent, &told} {
		for _, err := range []error{nil, full, full, gone, nil, nil, gone} {
			l.Report(err)
		}
	}
	var messages []string
	for _, e := range logged.All() {
		messages = append(messages, e.Message)
	}
	once := []string{"cannot write", "cannot write", "cannot write"}
	assert.Equal(t, append(once, "cannot write", "cannot write", "written again", "cannot write"), messages)
	again := logged.FilterMessage("written again").All()[0]
	assert.Equal(t, "cannot write", failurelog.Ended(again.Context))
	assert.Empty(t, again.ContextMap(), "no log has the field")
	assert.Empty(t, failurelog.Ended(logged.All()[0].Context))
}
