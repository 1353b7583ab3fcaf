// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"bytes"
	"errors"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/podconfig"
)

// FuzzDecode decodes any data as a file, and as the body of a file with a valid header. It expects
// no panic, only documented errors, and that accepted data is a seed that survives another round.
func FuzzDecode(f *testing.F) {
	const pod = `{"source":"api","pod":{"metadata":{"name":"a","namespace":"ns","uid":"1"},"spec":{"containers":[{"name":"c","image":"i"}]},"status":{}}}`
	f.Add([]byte(""))
	f.Add([]byte(pod + "\n" + strings.ReplaceAll(pod, `"api"`, `"file"`) + "\n"))
	f.Add(seal([]byte(pod + "\n")))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, file := range [][]byte{data, seal(data)} {
			pods, err := decode(file)
			if err != nil {
				known := false
				for _, is := range []error{ErrForeign, ErrTorn, ErrVersion, ErrCorrupt} {
					known = known || errors.Is(err, is)
				}
				require.True(t, known, "%v", err)
				require.Nil(t, pods)
				continue
			}
			_, err = podconfig.NewStore(podconfig.StoreOptions{Seed: pods})
			require.NoError(t, err)
			again, err := encode(all(pods), nil, MaxBytes)
			require.NoError(t, err)
			pods, err = decode(again)
			require.NoError(t, err)
			twice, err := encode(all(pods), nil, MaxBytes)
			require.NoError(t, err)
			require.True(t, bytes.Equal(again, twice) || len(pods) > 1, "stable, but for the order of sources")
		}
	})
}

func all(pods map[string][]*v1.Pod) iter.Seq2[string, *v1.Pod] {
	return func(yield func(string, *v1.Pod) bool) {
		for source, list := range pods {
			for _, p := range list {
				if !yield(source, p) {
					return
				}
			}
		}
	}
}

// A checkpoint with a valid checksum may still contain an invalid seed.
func TestContentThatIsNoSeedIsCorrupt(t *testing.T) {
	const a = `{"source":"api","pod":{"metadata":{"name":"a","uid":"1"}}}` + "\n"
	pods, err := decode(seal([]byte(a)))
	require.NoError(t, err)
	require.Len(t, pods["api"], 1)
	for name, body := range map[string]string{
		"no JSON":       "hunter2\n",
		"wrong type":    `{"source":"api","pod":{"metadata":{"name":"a","uid":"1"},"spec":{"hostNetwork":"hunter2"}}}`,
		"no source":     strings.Replace(a, "api", "", 1),
		"no pod":        `{"source":"api"}` + "\n",
		"no UID":        `{"source":"api","pod":{"metadata":{"name":"a"}}}` + "\n",
		"UID twice":     a + strings.Replace(a, `"a"`, `"b"`, 1),
		"name twice":    a + strings.Replace(a, `"1"`, `"2"`, 1),
		"an empty line": "\n" + a,
	} {
		_, err := decode(seal([]byte(body)))
		require.ErrorIs(t, err, ErrCorrupt, name)
		require.NotContains(t, err.Error(), "hunter2", name)
	}
	pods, err = decode(seal([]byte(a + strings.Replace(a, "api", "file", 1))))
	require.NoError(t, err, "sources are apart")
	require.Len(t, pods, 2)
}

func TestPace(t *testing.T) {
	now := time.Unix(1_000, 0)
	p := pace{}
	p.changed(now, time.Minute)
	require.Equal(t, now.Add(time.Minute), p.due)
	p.changed(now, time.Second)
	require.Equal(t, now.Add(time.Second), p.due, "the earlier counts")
	p.changed(now.Add(time.Millisecond), time.Second)
	require.Equal(t, now.Add(time.Second), p.due, "the first change counts")
	p.saved(now, nil)
	require.True(t, p.due.IsZero())

	failed := errors.New("failed")
	for _, pause := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60} {
		p.saved(now, failed)
		require.Equal(t, now.Add(pause*time.Second), p.due)
		p.changed(now, 0)
		require.Equal(t, now.Add(pause*time.Second), p.due, "a change makes the disk no better")
	}
	p.saved(now, nil)
	p.saved(now, failed)
	require.Equal(t, now.Add(time.Second), p.due)
}

func TestEncodeHasALimit(t *testing.T) {
	pods := map[string][]*v1.Pod{"api": {{}, {}}}
	data, err := encode(all(pods), nil, MaxBytes)
	require.NoError(t, err)
	_, err = encode(all(pods), nil, len(data)+longestHeader)
	require.NoError(t, err)
	_, err = encode(all(pods), nil, len(data)-longestHeader)
	require.ErrorIs(t, err, ErrTooLarge)
}
