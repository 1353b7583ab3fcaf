// SPDX-License-Identifier: Apache-2.0

package imagegc

import (
	"cmp"
	"fmt"
	"time"
)

// The default policy is the kubelet's (version 1.36).
const (
	DefaultHighPercent = 85
	DefaultLowPercent  = 80
	DefaultMinAge      = 2 * time.Minute
)

// Policy decides when images are removed, and which images stay.
type Policy struct {
	// HighPercent is the usage of the image file system that starts removals, beginning with the
	// longest idle image. With 100 and no MaxAge, Run collects nothing. Defaults to
	// DefaultHighPercent.
	HighPercent int
	// LowPercent is the usage at which removals stop. At most HighPercent. Defaults to
	// DefaultLowPercent, or if lower, to five less than HighPercent but at least 1.
	LowPercent int
	// MinAge is the time for which an image always stays, counted from its first detection. It
	// gives a new pod time to use a pulled image. It does not count from the last use: as in the
	// kubelet, the image of an ended container may be removed at once. Negative means none.
	// Defaults to DefaultMinAge.
	MinAge time.Duration
	// MaxAge is the idle time (Record.IdleSince) after which an image is removed, however empty the
	// disk is. MaxAge and MinAge count from different times, and either may be longer. Defaults to
	// 0: unlimited.
	MaxAge time.Duration

	// Protected are images to keep: references, IDs or digests. A reference without a tag covers
	// all tags. A * matches any text including slashes: "*/pause". List the pause image here if the
	// runtime does not pin it.
	Protected []string
	// Protect reports whether an image must stay for a reason of the caller. It is called often and
	// without a lock held, and must be quick. Defaults to false for every image.
	Protect func(Image) bool
}

// withDefaults returns p with defaults filled in, or an error naming the invalid field.
func (p Policy) withDefaults() (Policy, error) {
	lowIsSet := p.LowPercent != 0
	for _, f := range []struct {
		name     string
		value    *int
		standard int
	}{
		{"HighPercent", &p.HighPercent, DefaultHighPercent},
		{"LowPercent", &p.LowPercent, DefaultLowPercent},
	} {
		if *f.value < 0 || *f.value > 100 {
			return Policy{}, fmt.Errorf("imagegc: Policy.%s is %d: want 1 to 100", f.name, *f.value)
		}
		if *f.value == 0 {
			*f.value = f.standard
		}
	}
	if !lowIsSet {
		p.LowPercent = min(p.LowPercent, max(p.HighPercent-(DefaultHighPercent-DefaultLowPercent), 1))
	}
	if p.LowPercent > p.HighPercent {
		return Policy{}, fmt.Errorf("imagegc: Policy.LowPercent %d is above HighPercent %d", p.LowPercent, p.HighPercent)
	}
	p.MinAge = cmp.Or(p.MinAge, DefaultMinAge)
	if p.MaxAge < 0 {
		return Policy{}, fmt.Errorf("imagegc: Policy.MaxAge is negative: %s", p.MaxAge)
	}
	for i, pattern := range p.Protected {
		if err := validatePattern(pattern); err != nil {
			return Policy{}, fmt.Errorf("imagegc: Policy.Protected[%d] %q: %w", i, pattern, err)
		}
	}
	return p, nil
}

// disabled reports whether Run collects nothing, as in the kubelet.
func (p Policy) disabled() bool { return p.HighPercent == 100 && p.MaxAge == 0 }
