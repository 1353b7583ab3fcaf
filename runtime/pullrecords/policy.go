// SPDX-License-Identifier: Apache-2.0

package pullrecords

import (
	"fmt"
	"strings"

	"github.com/keelson-dev/keelson/internal/registry"
)

// Policy decides about images without a record. The values are those of the kubelet's configuration; its NeverVerify
// is a runtime.Manager without PullRecords.
type Policy string

const (
	// NeverVerifyPreloadedImages allows all of them. It is the kubelet's default.
	NeverVerifyPreloadedImages Policy = "NeverVerifyPreloadedImages"
	// NeverVerifyAllowlistedImages allows those that Options.Allowlist names.
	NeverVerifyAllowlistedImages Policy = "NeverVerifyAllowlistedImages"
	// AlwaysVerify allows none.
	AlwaysVerify Policy = "AlwaysVerify"
)

// list is a list of repositories; a name that ends with /* stands for all repositories below.
type list []string

func checkList(names []string) error {
	for _, name := range names {
		repository, _ := strings.CutSuffix(name, "/*")
		place, ok := registry.Of(repository + "/x")
		_, path, _ := strings.Cut(repository, "/")
		if !ok || strings.ContainsAny(repository, "*@ ") || strings.Contains(path, ":") || place.String() != repository+"/x" {
			return fmt.Errorf("allow list: %q: want a repository such as registry.example/team/app, or registry.example/team/*", name)
		}
	}
	return nil
}

func (l list) has(repository string) bool {
	for _, name := range l {
		if prefix, ok := strings.CutSuffix(name, "*"); ok && strings.HasPrefix(repository, prefix) || repository == name {
			return true
		}
	}
	return false
}

// repositoryOf returns the repository of a reference, with its registry.
func repositoryOf(image string) string {
	if place, ok := registry.Of(image); ok {
		return place.String()
	}
	return image
}
