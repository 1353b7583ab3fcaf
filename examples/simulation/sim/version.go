// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"reflect"
	"runtime/debug"
	"strings"
)

// version is the version of this module in the program, with the revision if the program is built
// from a checkout.
var version = func() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, module := range info.Deps {
		if strings.HasPrefix(reflect.TypeFor[Sim]().PkgPath(), module.Path+"/") {
			return module.Version
		}
	}
	text := info.Main.Version
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && !strings.Contains(text, s.Value[:min(12, len(s.Value))]) {
			text += " " + s.Value
		}
	}
	return text
}()
