// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/keelson-dev/keelson/internal/spelling"
)

// flagError adds suggestions for a misspelled flag, and a reference to --help.
func flagError(set *pflag.FlagSet, err error) error {
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok {
		return fmt.Errorf("%w (see --help)", err)
	}
	var names []string
	set.VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	meant := spelling.Similar(unknown.GetSpecifiedName(), names)
	if nearest := spelling.Nearest(unknown.GetSpecifiedName(), names); nearest != "" {
		meant = []string{nearest}
	}
	if len(meant) == 0 {
		return fmt.Errorf("%w (see --help)", err)
	}
	return fmt.Errorf("%w: did you mean --%s? (see --help)", err, strings.Join(meant, ", --"))
}
