// SPDX-License-Identifier: Apache-2.0

package podworkers

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNewNamesTheBadField(t *testing.T) {
	w, err := New(Options{})
	require.ErrorContains(t, err, "Options.Syncer")
	require.Nil(t, w)
}
