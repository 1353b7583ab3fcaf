// SPDX-License-Identifier: Apache-2.0

package file

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/internal/casetest"
	"github.com/keelson-dev/keelson/internal/retry"
)

var epoch = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

func at(ms int) time.Time { return epoch.Add(time.Duration(ms) * time.Millisecond) }

func newPace() *pace {
	p := &pace{debounce: DefaultDebounce, period: DefaultPeriod}
	p.afterScan(epoch, time.Time{})
	return p
}

func glance(p *pace, times int) {
	for range times {
		p.afterGlance(false, time.Time{})
	}
}

func TestPace(t *testing.T) {
	tests := []struct {
		name string
		do   func(p *pace)
		step step
		at   int // milliseconds
	}{
		{"idle", func(*pace) {}, stepScan, 20_000},
		{"recheck", func(p *pace) { p.afterScan(at(5), at(70)) }, stepScan, 70},
		{"hint", func(p *pace) { p.hint(at(50)) }, stepGlance, 52},
		{"hints push the glance", func(p *pace) { p.hint(at(50)); p.hint(at(55)) }, stepGlance, 57},
		{"second glance", func(p *pace) { p.hint(at(50)); glance(p, 1) }, stepGlance, 60},
		{"third glance", func(p *pace) { p.hint(at(50)); glance(p, 2) }, stepGlance, 75},
		{"a glance that leaves nothing is the last", func(p *pace) { p.hint(at(50)); p.afterGlance(true, time.Time{}) }, stepScan, 150},
		{"until the next hint", func(p *pace) { p.hint(at(50)); p.afterGlance(true, time.Time{}); p.hint(at(60)) }, stepGlance, 62},
		{"scan after the glances", func(p *pace) { p.hint(at(50)); glance(p, 3) }, stepScan, 150},
		{"hint after the glances", func(p *pace) { p.hint(at(50)); glance(p, 3); p.hint(at(100)) }, stepGlance, 102},
		{"two bursts of glances", func(p *pace) { p.hint(at(50)); glance(p, 3); p.hint(at(100)); glance(p, 3) }, stepScan, 200},
		{"recheck waits for the quiet", func(p *pace) { p.hint(at(50)); glance(p, 2); p.afterGlance(false, at(70)) }, stepScan, 150},
		{"stream", func(p *pace) {
			for i := range 100 {
				p.hint(at(50 + 10*i))
				p.afterGlance(false, time.Time{})
			}
		}, stepScan, 1050},
		{"scan ends the burst", func(p *pace) { p.hint(at(50)); p.afterScan(at(150), time.Time{}) }, stepScan, 20_150},
		{"watch ended", func(p *pace) { p.watchEnded(at(10)) }, stepArm, 110},
		{"arming failed", func(p *pace) { p.armFailed(at(0)) }, stepArm, 1000},
		{"arming failed thrice", func(p *pace) { p.armFailed(at(0)); p.armFailed(at(0)); p.armFailed(at(0)) }, stepArm, 4000},
		{"armed", func(p *pace) { p.armFailed(at(0)); p.armed() }, stepScan, 20_000},
		{"delays begin anew", func(p *pace) { p.armFailed(at(0)); p.armFailed(at(0)); p.armed(); p.armFailed(at(0)) }, stepArm, 1000},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := newPace()
			tt.do(p)
			do, due := p.next()
			assert.Equal(t, tt.step, do)
			assert.Equal(t, at(tt.at), due)
		})
	}
}

func TestArmDelayIsBounded(t *testing.T) {
	p := newPace()
	for range 100 {
		p.armFailed(epoch)
		assert.LessOrEqual(t, p.arm.Sub(epoch), DefaultPeriod)
	}
	p.period = time.Millisecond
	p.armFailed(epoch)
	assert.Equal(t, time.Second, p.arm.Sub(epoch))
}

// For any hints, a scan begins within ten debounces of the first open hint and within every period.
// It never begins within the debounce of a hint unless the ten debounces have passed.
func TestPaceKeepsItsBounds(t *testing.T) {
	for seed := range casetest.Rounds[uint64](2000) {
		rng := rand.New(rand.NewPCG(seed, 1))
		p, now, lastScan := newPace(), epoch, epoch
		var unanswered, lastHint time.Time
		for range 100 {
			do, due := p.next()
			if hint := now.Add(time.Duration(rng.Int64N(int64(1+rng.IntN(300)) * int64(time.Millisecond)))); hint.Before(due) {
				now = hint
				p.hint(now)
				lastHint = now
				unanswered = retry.Earlier(unanswered, now)
				continue
			}
			require.False(t, due.After(lastScan.Add(p.period)))
			now = due
			if do == stepGlance {
				require.Contains(t, []time.Duration{2e6, 10e6, 25e6}, now.Sub(lastHint))
				p.afterGlance(rng.IntN(3) == 0, now.Add(time.Duration(rng.IntN(200))*time.Millisecond))
				continue
			}
			require.Equal(t, stepScan, do)
			if !unanswered.IsZero() {
				most := unanswered.Add(10 * p.debounce)
				require.False(t, now.After(most))
				require.True(t, now.Equal(most) || !now.Before(lastHint.Add(p.debounce)) || now.Equal(lastScan.Add(p.period)))
			}
			unanswered, lastScan = time.Time{}, now
			p.afterScan(now, time.Time{})
		}
	}
}
