// SPDX-License-Identifier: Apache-2.0

package containermeta_test

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/keelson-dev/keelson/internal/containermeta"
)

// FuzzHash compares with the definition: encoding/json and hash/fnv.
func FuzzHash(f *testing.F) {
	for _, s := range []string{"", "nginx:1.29", `a"b`, `b\c`, "<", ">", "&", "tab\t", "ümlaut", "\xff", "\u2028", "\x7f"} {
		f.Add("name", s)
		f.Add(s, "image")
	}
	f.Fuzz(func(t *testing.T, name, image string) {
		text, err := json.Marshal(map[string]string{"name": name, "image": image})
		require.NoError(t, err)
		h := fnv.New32a()
		_, _ = fmt.Fprintf(h, "([]uint8)%v", text)
		assert.Equal(t, strconv.FormatUint(uint64(h.Sum32()), 16), containermeta.Hash(&v1.Container{Name: name, Image: image}))
	})
}

func TestHash(t *testing.T) {
	base := v1.Container{
		Name: "a", Image: "image",
		Env:       []v1.EnvVar{{Name: "K", Value: "v"}},
		Resources: v1.ResourceRequirements{Limits: v1.ResourceList{"cpu": resource.MustParse("1"), "memory": resource.MustParse("1Gi")}},
	}
	for _, c := range []struct {
		name   string
		change func(*v1.Container)
		want   bool // whether the hash changes
	}{
		{"nothing", func(*v1.Container) {}, false},
		{"name", func(c *v1.Container) { c.Name = "b" }, true},
		{"image", func(c *v1.Container) { c.Image = "image:2" }, true},
		{"name and image swapped", func(c *v1.Container) { c.Name, c.Image = c.Image, c.Name }, true},
		{"env (Q3)", func(c *v1.Container) { c.Env[0].Value = "w" }, false},
		{"command (Q3)", func(c *v1.Container) { c.Command = []string{"sh"} }, false},
		{"limits", func(c *v1.Container) { c.Resources.Limits["cpu"] = resource.MustParse("2") }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			changed := base.DeepCopy()
			c.change(changed)
			assert.Equal(t, c.want, containermeta.Hash(&base) != containermeta.Hash(changed))
		})
	}
	known := v1.Container{Name: "web", Image: "localhost/busybox:1"}
	assert.Equal(t, "f6edd6cb", containermeta.Hash(&known), "as the kubelet's own functions compute it")
}
