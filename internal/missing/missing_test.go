// SPDX-License-Identifier: Apache-2.0

package missing_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/internal/missing"
)

func TestIgnore(t *testing.T) {
	other := errors.New("the disk is broken")
	require.NoError(t, missing.Ignore(nil))
	require.NoError(t, missing.Ignore(os.Remove(filepath.Join(t.TempDir(), "none"))))
	require.NoError(t, missing.Ignore(fmt.Errorf("read the record: %w", fs.ErrNotExist)))
	require.Equal(t, other, missing.Ignore(other))
}
