// SPDX-License-Identifier: Apache-2.0

package apiservertest

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/keelson-dev/keelson/internal/testneed"
)

// Environment variables with the folder of kube-apiserver and etcd, and the permission to skip
// tests.
const (
	DirVariable     = "KEELSON_APISERVER_DIR"
	RequireVariable = "KEELSON_REQUIRE_APISERVER"
)

// ErrUnavailable means that the machine cannot run an API server. A test may skip after
// ErrUnavailable.
var ErrUnavailable = errors.New("no API server for tests")

// binaries are the paths of the programs of one server.
type binaries struct {
	apiserver, etcd, kubectl string
	controllers              map[string]string // path by name; empty without Options.Controllers
}

// findBinaries searches the programs and the named controllers only in dir, because packages may
// install any version. An ErrUnavailable names every missing program.
func findBinaries(dir string, controllers ...string) (binaries, error) {
	if dir == "" {
		return binaries{}, fmt.Errorf("%w: %s is not set (%s=$(e2e/kubernetes.sh) builds one, in minutes)",
			ErrUnavailable, DirVariable, DirVariable)
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return binaries{}, err
	}
	var missing []string
	find := func(name string) string {
		file, err := exec.LookPath(filepath.Join(dir, name))
		if err != nil {
			missing = append(missing, name)
		}
		return file
	}
	b := binaries{apiserver: find("kube-apiserver"), etcd: find("etcd"), kubectl: find("kubectl"), controllers: map[string]string{}}
	for _, name := range controllers {
		b.controllers[name] = find(name)
	}
	if len(missing) > 0 {
		return binaries{}, fmt.Errorf("%w: %s not found in %s", ErrUnavailable, strings.Join(missing, ", "), dir)
	}
	return b, nil
}

// failOrSkip ends t if err is not nil. If err is an ErrUnavailable and the environment allows it, t
// is skipped. Otherwise t fails.
func failOrSkip(t testing.TB, err error) {
	t.Helper()
	testneed.SkipOrFail(t, "the API server", err, ErrUnavailable, RequireVariable)
}
