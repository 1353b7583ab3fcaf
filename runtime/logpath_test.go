// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

func podNamed(namespace, name, uid string) *v1.Pod {
	pod := &v1.Pod{}
	pod.Namespace, pod.Name, pod.UID = namespace, name, types.UID(uid)
	return pod
}

func TestPodLogDir(t *testing.T) {
	got, err := podLogDir("/var/log/pods", podNamed("ns", "web", "u_1"))
	require.NoError(t, err)
	assert.Equal(t, "/var/log/pods/ns_web_u_1", got)

	for _, tc := range []struct{ name, namespace, pod, uid, err string }{
		{"no namespace", "", "web", "u", "metadata.namespace: is empty"},
		{"no name", "ns", "", "u", "metadata.name: is empty"},
		{"no uid", "ns", "web", "", "metadata.uid: is empty"},
		{"climbing namespace", "..", "web", "u", `metadata.namespace: ".." is no file name`},
		{"climbing name", "ns", "../x", "u", `metadata.name: "../x" is no file name`},
		{"climbing uid", "ns", "web", "u/../../../etc", `metadata.uid: "u/../../../etc" is no file name`},
		{"backslash", "ns", `a\b`, "u", `metadata.name: "a\\b" is no file name`},
		{"NUL", "ns", "web", "u\x00", `metadata.uid: "u\x00" is no file name`},
		{"new line", "ns", "w\nb", "u", `metadata.name: "w\nb" is no file name`},
		{"ambiguous namespace", "n_s", "web", "u", `metadata.namespace: "n_s" has an underscore`},
		{"ambiguous name", "ns", "w_b", "u", `metadata.name: "w_b" has an underscore`},
		{"too long", "ns", strings.Repeat("x", 251), "u", "metadata: namespace, name and uid have 254 bytes together, one directory's name takes 253"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := podLogDir("/var/log/pods", podNamed(tc.namespace, tc.pod, tc.uid))
			require.EqualError(t, err, tc.err)
		})
	}
}

func TestContainerLogDir(t *testing.T) {
	got, err := containerLogDir("/logs/p", "main")
	require.NoError(t, err)
	assert.Equal(t, "/logs/p/main", got)
	for _, name := range []string{"", ".", "..", "../x", "a/b", "/etc", "a\x00", strings.Repeat("x", 256)} {
		_, err := containerLogDir("/logs/p", name)
		require.ErrorContains(t, err, "name: ", "%q", name)
	}
}

// For every pod name the logs are two levels below the root, and the directory identifies the pod.
func FuzzLogPath(f *testing.F) {
	f.Add("ns", "web", "u-1", "main")
	f.Add("..", "..", "..", "..")
	f.Add("a_b", "c", "d_e", "/")
	f.Add(".", "\\..\\", "x\x00y", "...")
	f.Fuzz(func(t *testing.T, namespace, name, uid, container string) {
		const root = "/var/log/pods"
		pod := podNamed(namespace, name, uid)
		podDir, err := podLogDir(root, pod)
		if err != nil {
			return
		}
		require.Equal(t, root, filepath.Dir(podDir))
		require.Equal(t, []string{namespace, name, uid}, strings.SplitN(filepath.Base(podDir), "_", 3))
		dir, err := containerLogDir(podDir, container)
		if err != nil {
			return
		}
		require.Equal(t, podDir, filepath.Dir(dir))
		require.Equal(t, container, filepath.Base(dir))
	})
}

func TestNextRestartCount(t *testing.T) {
	for _, tc := range []struct {
		name  string
		files []string
		dirs  []string
		want  int32
	}{
		{name: "empty"},
		{name: "first", files: []string{"0.log"}, want: 1},
		{name: "highest wins", files: []string{"2.log", "10.log", "9.log"}, want: 11},
		{name: "rotated", files: []string{"3.log", "4.log.20260101-000000", "5.log.20260101-000000.gz"}, want: 6},
		{name: "leading zeros", files: []string{"007.log"}, want: 8},
		{name: "nothing that counts", files: []string{"log", ".log", "a.log", "1.txt", "x1.log", "-42.log", "+42.log", "1.logs", "1log", "1.log-old", "1_0.log", " 1.log", "٣.log"}},
		{name: "directories do not count", files: []string{"1.log"}, dirs: []string{"7.log"}, want: 2},
		{name: "overflow does not count", files: []string{"1.log", "2147483647.log", "2147483648.log", "99999999999999999999.log"}, want: 2},
		{name: "the last that has a next", files: []string{"2147483646.log"}, want: 2147483647},
	} {
		t.Run(tc.name, func(t *testing.T) {
			root := t.TempDir()
			pod := podNamed("ns", "web", "u-1")
			dir := filepath.Join(root, "ns_web_u-1", "main")
			require.NoError(t, os.MkdirAll(dir, 0o755))
			for _, f := range tc.files {
				require.NoError(t, os.WriteFile(filepath.Join(dir, f), nil, 0o644))
			}
			for _, d := range tc.dirs {
				require.NoError(t, os.Mkdir(filepath.Join(dir, d), 0o755))
			}
			g, err := NewDefaultGenerator(DefaultGeneratorOptions{LogRoot: root})
			require.NoError(t, err)
			assert.Equal(t, tc.want, g.NextRestartCount(pod, "main"))
			assert.Zero(t, g.NextRestartCount(pod, "other"), "another container")
			assert.Zero(t, g.NextRestartCount(podNamed("ns", "web", "u-2"), "main"), "another pod")
		})
	}
}

func TestNextRestartCountLooksNowhereElse(t *testing.T) {
	root := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(root, "5.log"), nil, 0o644))
	g, err := NewDefaultGenerator(DefaultGeneratorOptions{LogRoot: filepath.Join(root, "pods")})
	require.NoError(t, err)
	assert.Zero(t, g.NextRestartCount(podNamed("ns", "web", "u"), "../.."))
	assert.Zero(t, g.NextRestartCount(podNamed("..", "", ""), "main"))
	assert.Zero(t, g.NextRestartCount(podNamed("", "", ""), ""))
}

// The rule as the kubelet writes it down.
func FuzzRestartCountOfLog(f *testing.F) {
	for _, s := range []string{"0.log", "12.log.gz", "1.log.", "1.log", "00.log", "-1.log", "1.logx", ".log", "1..log", "2147483646.log", "2147483647.log", "2147483648.log"} {
		f.Add(s)
	}
	rule := regexp.MustCompile(`^(\d+)\.log((?s)\..*)?$`)
	f.Fuzz(func(t *testing.T, file string) {
		n, ok := restartCountOfLog(file)
		m := rule.FindStringSubmatch(file)
		if m == nil {
			require.False(t, ok)
			require.Zero(t, n)
			return
		}
		want, err := strconv.Atoi(m[1])
		require.Equal(t, err == nil && want < 1<<31-1, ok)
		if ok {
			require.Equal(t, int32(want), n)
		}
	})
}
