// SPDX-License-Identifier: Apache-2.0

package pressure

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Settings are thresholds as texts by signal, as in the fields of a KubeletConfiguration.
type Settings struct {
	// Hard is evictionHard. Values are quantities or percentages; 0% and 100% remove a threshold.
	Hard map[string]string
	// MergeDefaults is mergeDefaultEvictionSettings: DefaultHard fills in the missing signals.
	MergeDefaults bool
	// Soft is evictionSoft, and SoftGrace is evictionSoftGracePeriod.
	Soft, SoftGrace map[string]string
	// Reclaim is evictionMinimumReclaim.
	Reclaim map[string]string
	// LimitsPods says that the node limits the memory of all pods together: each hard threshold of
	// memory.available holds for allocatableMemory.available, too, unless Hard names that signal. It is
	// for "pods" in enforceNodeAllocatable.
	LimitsPods bool
}

// Names of the fields in errors.
const fieldHard, fieldSoft, fieldGrace, fieldReclaim = "evictionHard", "evictionSoft", "evictionSoftGracePeriod", "evictionMinimumReclaim"

// Parse returns the thresholds, sorted by signal, and of a signal the hard one first. The error
// joins an error for each wrong value, with the field of the KubeletConfiguration and the signal.
func Parse(s Settings) ([]Threshold, error) {
	p := parser{reclaim: map[Signal]Amount{}}
	for _, signal := range p.signals(fieldReclaim, s.Reclaim) {
		amount, err := parseReclaim(signal, s.Reclaim[string(signal)])
		p.report(fieldReclaim, err)
		p.reclaim[signal] = amount
	}
	hard := s.Hard
	if s.MergeDefaults {
		hard = DefaultHard()
		maps.Copy(hard, s.Hard)
	}
	p.add(fieldHard, hard, func(Signal) time.Duration { return 0 })
	graces := map[Signal]time.Duration{}
	for _, signal := range p.signals(fieldGrace, s.SoftGrace) {
		text := s.SoftGrace[string(signal)]
		grace, err := time.ParseDuration(text)
		if err != nil || grace <= 0 {
			p.report(fieldGrace, fmt.Errorf("invalid eviction grace period of %s specified: %s, must be a positive value", signal, text))
			grace = time.Second // for further errors
		}
		graces[signal] = grace
	}
	p.add(fieldSoft, s.Soft, func(signal Signal) time.Duration {
		grace := graces[signal]
		if grace == 0 {
			p.report(fieldSoft, fmt.Errorf("grace period must be specified for the soft eviction threshold %s", signal))
		}
		return grace
	})
	if s.LimitsPods {
		p.all = withAllocatable(p.all)
	}
	slices.SortStableFunc(p.all, func(a, b Threshold) int { return strings.Compare(string(a.Signal), string(b.Signal)) })
	return p.all, errors.Join(p.errs...)
}

// withAllocatable adds the thresholds of the memory of all pods.
func withAllocatable(all []Threshold) []Threshold {
	isHard := func(s Signal) func(Threshold) bool {
		return func(t Threshold) bool { return t.Signal == s && t.IsHard() }
	}
	i := slices.IndexFunc(all, isHard(MemoryAvailable))
	if i < 0 || slices.ContainsFunc(all, isHard(AllocatableMemoryAvailable)) {
		return all
	}
	t := all[i]
	t.Signal = AllocatableMemoryAvailable
	return append(all, t)
}

// parser collects thresholds and errors.
type parser struct {
	reclaim map[Signal]Amount
	all     []Threshold
	errs    []error
}

func (p *parser) report(field string, err error) {
	if err != nil {
		p.errs = append(p.errs, fmt.Errorf("%s: %w", field, err))
	}
}

// signals returns the signals of a field in order, and reports unknown ones.
func (p *parser) signals(field string, texts map[string]string) (known []Signal) {
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		switch signal := Signal(name); {
		case slices.Contains(Signals(), signal):
			known = append(known, signal)
		default:
			p.report(field, fmt.Errorf("unsupported eviction signal %s", name))
		}
	}
	return known
}

// add adds the thresholds of a field.
func (p *parser) add(field string, texts map[string]string, grace func(Signal) time.Duration) {
	for _, signal := range p.signals(field, texts) {
		below, err := parseBelow(signal, texts[string(signal)])
		p.report(field, err)
		if t := (Threshold{Signal: signal, Below: below, Reclaim: p.reclaim[signal], Grace: grace(signal)}); below != (Amount{}) {
			p.all = append(p.all, t)
		}
	}
}

// parseBelow parses a threshold. The zero Amount means that there is no threshold.
func parseBelow(signal Signal, text string) (Amount, error) {
	if strings.HasSuffix(text, "%") {
		share, err := parseShare(text)
		switch {
		case err != nil:
			return Amount{}, fmt.Errorf("eviction threshold %s: %w", signal, err)
		case share < 0:
			return Amount{}, fmt.Errorf("eviction percentage threshold %s must be >= 0%%: %s", signal, text)
		case share > 1:
			return Amount{}, fmt.Errorf("eviction percentage threshold %s must be <= 100%%: %s", signal, text)
		case share == 1:
			return Amount{}, nil
		}
		return Amount{Share: share}, nil
	}
	q, err := resource.ParseQuantity(text)
	if err != nil {
		return Amount{}, fmt.Errorf("eviction threshold %s: %q is neither a quantity nor a percentage", signal, text)
	}
	switch {
	case q.Sign() <= 0:
		return Amount{}, fmt.Errorf("eviction threshold %s must be positive: %s", signal, text)
	case isTooLarge(q):
		return Amount{}, fmt.Errorf("eviction threshold %s is too large: %s", signal, text)
	}
	return Amount{Value: q.Value()}, nil
}

func parseReclaim(signal Signal, text string) (Amount, error) {
	if strings.HasSuffix(text, "%") {
		share, err := parseShare(text)
		switch {
		case err != nil:
			return Amount{}, fmt.Errorf("eviction minimum reclaim %s: %w", signal, err)
		case share <= 0 || share > 1:
			return Amount{}, fmt.Errorf("eviction percentage minimum reclaim %s must be positive and at most 100%%: %s", signal, text)
		}
		return Amount{Share: share}, nil
	}
	q, err := resource.ParseQuantity(text)
	if err != nil {
		return Amount{}, fmt.Errorf("eviction minimum reclaim %s: %q is neither a quantity nor a percentage", signal, text)
	}
	switch {
	case q.Sign() < 0:
		return Amount{}, fmt.Errorf("negative eviction minimum reclaim specified for %s: %s", signal, text)
	case isTooLarge(q):
		return Amount{}, fmt.Errorf("eviction minimum reclaim %s is too large: %s", signal, text)
	}
	return Amount{Value: q.Value()}, nil
}

// isTooLarge says whether q does not fit into an int64: its Value would be a smaller or negative number.
func isTooLarge(q resource.Quantity) bool {
	return q.CmpInt64(math.MaxInt64) > 0
}

// parseShare returns a hundredth of a percentage.
func parseShare(text string) (float32, error) {
	percent, err := strconv.ParseFloat(strings.TrimSuffix(text, "%"), 32)
	if err != nil || math.IsNaN(percent) {
		return 0, fmt.Errorf("%q is no percentage", text)
	}
	return float32(percent) / 100, nil
}
