// SPDX-License-Identifier: Apache-2.0

package imagegc

import (
	"fmt"
	"time"
)

// The kubelet's policy (version 1.36), which is the default.
const (
	DefaultHighPercent = 85
	DefaultLowPercent  = 80
	DefaultMinAge      = 2 * time.Minute
)

// Policy says which images may go, and when.
type Policy struct {
	// HighPercent of the image file system in use makes images go, the longest idle first. 100, without a MaxAge, means
	// that Run collects nothing. Defaults to DefaultHighPercent.
	HighPercent int
	// LowPercent in use is enough: then no further image goes. At most HighPercent. Defaults to DefaultLowPercent.
	LowPercent int
	// MinAge is how long an image stays in any case, from when it was first detected. It gives who pulled it time to
	// use it, and does not count from the last use: what an ended container leaves may go at once, as in the kubelet.
	// Negative means none. Defaults to DefaultMinAge.
	MinAge time.Duration
	// MaxAge is how long an image may be idle (Record.IdleSince) before it goes, however empty the disk is. It has
	// nothing to do with MinAge, which counts from another time: either may be the longer. Defaults to 0: any time.
	MaxAge time.Duration

	// Protected are images that stay: references, IDs or digests. One without a tag means all its tags; a *
	// stands for any text, slashes included: "*/pause". The pause image belongs here if the runtime does not pin it.
	Protected []string
	// Protect reports whether an image is to stay for another reason. It is called without a lock held, often, and
	// must be quick. Defaults to no.
	Protect func(Image) bool
}

// withDefaults returns p with defaults filled in, or an error that names the field that cannot be used.
func (p Policy) withDefaults() (Policy, error) {
	for _, f := range []struct {
		name     string
		value    *int
		standard int
	}{
		{"HighPercent", &p.HighPercent, DefaultHighPercent},
		{"LowPercent", &p.LowPercent, DefaultLowPercent},
	} {
		if *f.value < 0 || *f.value > 100 {
			return p, fmt.Errorf("imagegc: Policy.%s is %d: want 1 to 100", f.name, *f.value)
		}
		if *f.value == 0 {
			*f.value = f.standard
		}
	}
	if p.LowPercent > p.HighPercent {
		return p, fmt.Errorf("imagegc: Policy.LowPercent %d is above HighPercent %d", p.LowPercent, p.HighPercent)
	}
	if p.MinAge == 0 {
		p.MinAge = DefaultMinAge
	}
	if p.MaxAge < 0 {
		return p, fmt.Errorf("imagegc: Policy.MaxAge is negative: %s", p.MaxAge)
	}
	for i, pattern := range p.Protected {
		if err := validatePattern(pattern); err != nil {
			return p, fmt.Errorf("imagegc: Policy.Protected[%d] %q: %w", i, pattern, err)
		}
	}
	return p, nil
}

// disabled reports whether there is nothing to collect as a matter of routine, as in the kubelet.
func (p Policy) disabled() bool { return p.HighPercent == 100 && p.MaxAge == 0 }
