// SPDX-License-Identifier: Apache-2.0

package mount

import (
	"strings"
)

// parsed are the options of a Request in the form of the system call.
type parsed struct {
	flags uintptr
	data  string
	bind  bool
}

// parse separates mount flags from file system options.
func parse(options []string) parsed {
	var p parsed
	var data []string
	for _, o := range options {
		f, known := flags[o]
		switch {
		case o == "" || o == "defaults":
		case known && f.clear:
			p.flags &^= f.bits
		case known:
			p.flags |= f.bits
			p.bind = p.bind || f.bind
		default:
			data = append(data, o)
		}
	}
	p.data = strings.Join(data, ",")
	return p
}

type flag struct {
	bits        uintptr
	clear, bind bool
}
