// SPDX-License-Identifier: Apache-2.0

package checkpoint_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/devices/checkpoint"
)

// The files of testdata were written by the checkpoint code of a kubelet (1.36.3).
func TestFilesOfTheKubelet(t *testing.T) {
	files, err := filepath.Glob("testdata/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, name := range files {
		t.Run(filepath.Base(name), func(t *testing.T) {
			data, err := os.ReadFile(name)
			require.NoError(t, err)
			state, err := checkpoint.Decode(data)
			require.NoError(t, err)
			again, err := checkpoint.Encode(state)
			require.NoError(t, err)
			require.Equal(t, string(data), string(again), "a kubelet reads our file")
		})
	}
}

func TestContentOfAFile(t *testing.T) {
	data, err := os.ReadFile("testdata/pods.json")
	require.NoError(t, err)
	state, err := checkpoint.Decode(data)
	require.NoError(t, err)
	require.Len(t, state.Entries, 2)
	require.Equal(t, checkpoint.DevicesPerNUMA{0: {"gpu-1"}, 1: {"gpu-1", "gpu-3"}}, state.Entries[0].DeviceIDs)
	require.Equal(t, checkpoint.DevicesPerNUMA{checkpoint.NoNUMA: {"eth7"}}, state.Entries[1].DeviceIDs)
	require.Equal(t, []string{"gpu-3", "gpu-0", "gpu-1"}, state.Registered["example.com/gpu"])
}

// No changed byte and no cut file is accepted as the checkpoint that was written.
func TestDamagedFiles(t *testing.T) {
	data, err := os.ReadFile("testdata/pods.json")
	require.NoError(t, err)
	for n := range data {
		_, err := checkpoint.Decode(data[:n])
		require.Error(t, err, n)
	}
	_, err = checkpoint.Decode(bytes.Replace(data, []byte("gpu-3"), []byte("gpu-4"), 1))
	require.ErrorIs(t, err, checkpoint.ErrChecksum)
}

func FuzzDecode(f *testing.F) {
	for _, name := range []string{"empty.json", "pods.json"} {
		data, err := os.ReadFile(filepath.Join("testdata", name))
		require.NoError(f, err)
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		state, err := checkpoint.Decode(data)
		if err != nil {
			return
		}
		encoded, err := checkpoint.Encode(state)
		require.NoError(t, err)
		again, err := checkpoint.Decode(encoded)
		require.NoError(t, err)
		require.Equal(t, state, again)
	})
}

func BenchmarkEncode(b *testing.B) {
	s := checkpoint.State{Registered: map[string][]string{}}
	for i := range 100 {
		id := fmt.Sprint("gpu-", i)
		s.Entries = append(s.Entries, checkpoint.PodDevicesEntry{PodUID: id, ContainerName: "main", ResourceName: "example.com/gpu", DeviceIDs: checkpoint.DevicesPerNUMA{0: {id}}, AllocResp: make([]byte, 100)})
		s.Registered["example.com/gpu"] = append(s.Registered["example.com/gpu"], id)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := checkpoint.Encode(s); err != nil {
			b.Fatal(err)
		}
	}
}

func Example() {
	data, err := checkpoint.Encode(checkpoint.State{Registered: map[string][]string{"example.com/gpu": {"gpu-0"}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(string(data))
	state, err := checkpoint.Decode(data)
	fmt.Println(state.Registered, err)
	// Output:
	// {"Data":{"PodDeviceEntries":null,"RegisteredDevices":{"example.com/gpu":["gpu-0"]}},"Checksum":2440447458}
	// map[example.com/gpu:[gpu-0]] <nil>
}
