// SPDX-License-Identifier: Apache-2.0

package projected_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/volumemanager/plugins/projected"
)

// issuer creates tokens with the lifetime life.
type issuer struct {
	life   time.Duration
	made   int
	broken bool
}

func (i *issuer) Token(_ context.Context, r projected.TokenRequest) (projected.Token, error) {
	if i.broken {
		return projected.Token{}, errors.New("the API server is away")
	}
	i.made++
	return projected.Token{Value: fmt.Sprintf("token %d of %s", i.made, r.PodUID), Expires: time.Now().Add(i.life)}, nil
}

func request(uid types.UID) projected.TokenRequest {
	return projected.TokenRequest{Namespace: "ns", ServiceAccount: "sa", Pod: "pod", PodUID: uid, ExpirationSeconds: 3600}
}

func newCache(t *testing.T, i *issuer, due func(types.UID)) *projected.TokenCache {
	t.Helper()
	c, err := projected.NewTokenCache(projected.TokenCacheOptions{Source: i, Due: due})
	require.NoError(t, err)
	return c
}

func TestTokenIsRenewedAtFourFifthsOfItsLife(t *testing.T) {
	for _, tc := range []struct{ life, due time.Duration }{
		{time.Hour, 48 * time.Minute}, {10 * time.Minute, 8 * time.Minute}, {365 * 24 * time.Hour, 24 * time.Hour},
	} {
		synctest.Test(t, func(t *testing.T) {
			i := &issuer{life: tc.life}
			c := newCache(t, i, nil)
			get := func() string {
				token, err := c.Token(t.Context(), request("a"))
				require.NoError(t, err)
				return token.Value
			}
			first := get()
			time.Sleep(tc.due - time.Nanosecond)
			assert.Equal(t, first, get())
			time.Sleep(time.Nanosecond)
			assert.NotEqual(t, first, get())
			assert.Equal(t, 2, i.made)
		})
	}
}

func TestRunTellsWhatIsDueAndSleepsElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := &issuer{life: time.Hour}
		ctx, cancel := context.WithCancelCause(t.Context())
		begin := time.Now()
		told := map[types.UID][]time.Duration{}
		var c *projected.TokenCache
		c = newCache(t, i, func(uid types.UID) {
			told[uid] = append(told[uid], time.Since(begin))
			_, err := c.Token(ctx, request(uid)) // the refresh, which the manager does in production
			assert.NoError(t, err)
		})
		why := errors.New("why")
		ended := make(chan error, 1)
		go func() { ended <- c.Run(ctx) }()
		synctest.Wait()
		require.ErrorIs(t, c.Run(ctx), projected.ErrRunning)
		_, err := c.Token(t.Context(), request("a"))
		require.NoError(t, err)
		time.Sleep(10 * time.Minute)
		_, err = c.Token(t.Context(), request("b"))
		require.NoError(t, err)
		time.Sleep(92 * time.Minute)
		synctest.Wait()
		assert.Equal(t, map[types.UID][]time.Duration{
			"a": {48 * time.Minute, 96 * time.Minute}, "b": {58 * time.Minute},
		}, told)
		c.Forget("a")
		c.Forget("b")
		time.Sleep(10 * time.Hour)
		synctest.Wait()
		assert.Len(t, told["a"], 2, "forgotten")
		cancel(why)
		require.NoError(t, <-ended)
	})
}

func TestRefreshThatDoesNotComeIsAskedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		var told []time.Duration
		c := newCache(t, &issuer{life: time.Hour}, func(types.UID) { told = append(told, time.Since(begin)) })
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { _ = c.Run(ctx); close(done) }()
		_, err := c.Token(t.Context(), request("a"))
		require.NoError(t, err)
		time.Sleep(49*time.Minute + time.Second)
		synctest.Wait()
		assert.Equal(t, []time.Duration{48 * time.Minute, 48*time.Minute + 30*time.Second, 49 * time.Minute}, told)
		cancel()
		<-done
	})
}

// TestTokenOfPodThatWentBeforeItsVolumeIsDropped: a volume that was never set up, because another
// source is missing, is never torn down.
func TestTokenOfPodThatWentBeforeItsVolumeIsDropped(t *testing.T) {
	for life, reminders := range map[time.Duration]int{time.Hour: 25, 365 * 24 * time.Hour: 121} {
		synctest.Test(t, func(t *testing.T) {
			told, i := 0, &issuer{life: life}
			c := newCache(t, i, func(types.UID) { told++ })
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() { _ = c.Run(ctx); close(done) }()
			_, err := c.Token(t.Context(), request("a"))
			require.NoError(t, err)
			time.Sleep(100 * time.Hour)
			synctest.Wait()
			assert.Equal(t, reminders, told)
			_, err = c.Token(t.Context(), request("a"))
			require.NoError(t, err)
			assert.Equal(t, 2, i.made, "the pod came back, and gets another")
			cancel()
			<-done
		})
	}
}

func TestOldTokenHoldsWhileTheSourceIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := &issuer{life: time.Hour}
		c := newCache(t, i, nil)
		first, err := c.Token(t.Context(), request("a"))
		require.NoError(t, err)
		i.broken = true
		time.Sleep(50 * time.Minute)
		again, err := c.Token(t.Context(), request("a"))
		require.NoError(t, err)
		assert.Equal(t, first, again)
		i.broken = false
		again, err = c.Token(t.Context(), request("a"))
		require.NoError(t, err)
		assert.Equal(t, first, again, "the source is left alone for a while")
		time.Sleep(30 * time.Second)
		again, err = c.Token(t.Context(), request("a"))
		require.NoError(t, err)
		assert.NotEqual(t, first, again)

		i.broken = true
		time.Sleep(time.Hour)
		_, err = c.Token(t.Context(), request("a"))
		require.ErrorContains(t, err, "away", "an expired token is not given out")
	})
}

func TestTokensAreOfOnePodAndAudience(t *testing.T) {
	i := &issuer{life: time.Hour}
	c := newCache(t, i, nil)
	other := request("a")
	other.Audience = "vault"
	for _, r := range []projected.TokenRequest{request("a"), request("b"), other, request("a")} {
		_, err := c.Token(t.Context(), r)
		require.NoError(t, err)
	}
	assert.Equal(t, 3, i.made)
	_, err := projected.NewTokenCache(projected.TokenCacheOptions{})
	require.ErrorContains(t, err, "TokenCacheOptions.Source")
}
