// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/expansion"
)

// maxSubPath is the kernel's maximum path length, in bytes.
const maxSubPath = 4096

// resolveSubPaths returns c, or a copy in which every subPathExpr is expanded into a subPath. Each
// variable of a subPathExpr must be set and not empty. A path that would leave its volume is an
// error.
func resolveSubPaths(c *v1.Container, env *environment) (*v1.Container, error) {
	out := c
	for i := range c.VolumeMounts {
		path, field := c.VolumeMounts[i].SubPath, "subPath"
		if expr := c.VolumeMounts[i].SubPathExpr; expr != "" {
			if out == c {
				changed := *c
				changed.VolumeMounts = slices.Clone(c.VolumeMounts)
				out = &changed
			}
			var err error
			field = "subPathExpr"
			if path, err = env.expandSubPath(expr); err != nil {
				return nil, fmt.Errorf("volumeMounts[%d].%s: %w", i, field, err)
			}
			out.VolumeMounts[i].SubPath, out.VolumeMounts[i].SubPathExpr = path, ""
		}
		if err := checkSubPath(path); err != nil {
			return nil, fmt.Errorf("volumeMounts[%d].%s: %w", i, field, err)
		}
	}
	return out, nil
}

// expandSubPath is expand with required variables.
func (e *environment) expandSubPath(expr string) (string, error) {
	var missing []string
	out, ok := expansion.Expand(expr, maxSubPath, func(name string) (string, bool) {
		value, ok := e.lookup(name)
		if value == "" {
			missing = append(missing, name)
		}
		return value, ok
	})
	switch {
	case len(missing) > 0:
		return "", fmt.Errorf("variable %q is not set or empty", missing[0])
	case !ok:
		return "", fmt.Errorf("is longer than %d bytes", maxSubPath)
	}
	return out, nil
}

// checkSubPath refuses absolute paths and paths with "..". The error does not show the path,
// because it may come from a Secret.
func checkSubPath(path string) error {
	if strings.HasPrefix(path, "/") {
		return errors.New("is not relative")
	}
	if slices.Contains(strings.Split(path, "/"), "..") {
		return errors.New(`has a ".."`)
	}
	if strings.Contains(path, "\x00") {
		return errors.New("has a NUL byte")
	}
	return nil
}
