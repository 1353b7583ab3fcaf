// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package crashtest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/volumemanager"
	"github.com/keelson-dev/keelson/volumemanager/plugins/configmap"
	"github.com/keelson-dev/keelson/volumemanager/plugins/csi"
	"github.com/keelson-dev/keelson/volumemanager/plugins/csi/csitest"
	"github.com/keelson-dev/keelson/volumemanager/plugins/downwardapi"
	"github.com/keelson-dev/keelson/volumemanager/plugins/emptydir"
	"github.com/keelson-dev/keelson/volumemanager/plugins/hostpath"
	"github.com/keelson-dev/keelson/volumemanager/plugins/local"
	"github.com/keelson-dev/keelson/volumemanager/plugins/mount"
	"github.com/keelson-dev/keelson/volumemanager/plugins/projected"
	"github.com/keelson-dev/keelson/volumemanager/plugins/secret"
	"github.com/keelson-dev/keelson/volumemanager/plugins/subpath"
)

const (
	namespace = "ns"
	// group is the fsGroup of every second pod.
	group = 4321
	// handle is the CSI volume shared by all pods.
	handle = "shared"
)

// place has the paths of a node.
type place struct {
	// Root is the agent's root. Precious contains the user's files: host and local, and the
	// driver's volumes below csi/volumes.
	Root, Precious string
	// Socket is the socket of the driver.
	Socket string
	// Mounts: the agent can mount.
	Mounts bool
	// Device is a block device with a file system; "" without a device.
	Device string
}

func (p place) host() string  { return filepath.Join(p.Precious, "host") }
func (p place) local() string { return filepath.Join(p.Precious, "local") }
func (p place) csi() string   { return filepath.Join(p.Precious, "csi") }

func (p place) mounter() mount.Mounter {
	if p.Mounts {
		return mount.System{}
	}
	return mount.None{}
}

// volume is a volume of every pod.
type volume struct {
	name, plugin string
	// inner is the name of the volume's folder, sub the subfolder for containers.
	inner, sub string
	// memory: the files are on a tmpfs if the agent can mount. payload: the files come from the
	// objects.
	memory, payload bool
	source          v1.VolumeSource
}

// volumes returns the volumes of a pod, one of each kind.
func (p place) volumes() []volume {
	object, limit, driver := v1.LocalObjectReference{Name: "o"}, resource.MustParse("1Mi"), csitest.DefaultName
	claim := func(name string) v1.VolumeSource {
		return v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: name}}
	}
	label := func(path string) v1.DownwardAPIVolumeFile {
		return v1.DownwardAPIVolumeFile{Path: path, FieldRef: &v1.ObjectFieldSelector{FieldPath: "metadata.annotations['" + path + "']"}}
	}
	items := func(dir string) []v1.KeyToPath {
		return []v1.KeyToPath{{Key: "a", Path: dir + "/a"}, {Key: "b", Path: dir + "/b"}}
	}
	all := []volume{
		{name: "scratch", plugin: emptydir.Name, source: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}},
		{name: "host", plugin: hostpath.Name, source: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: p.host()}}},
		{name: "config", plugin: configmap.Name, payload: true,
			source: v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: object}}},
		{name: "pass", plugin: secret.Name, payload: true, memory: true,
			source: v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "o"}}},
		{name: "down", plugin: downwardapi.Name, payload: true, memory: true,
			source: v1.VolumeSource{DownwardAPI: &v1.DownwardAPIVolumeSource{Items: []v1.DownwardAPIVolumeFile{label("a"), label("b")}}}},
		{name: "both", plugin: projected.Name, payload: true, memory: true,
			source: v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{
				{ConfigMap: &v1.ConfigMapProjection{LocalObjectReference: object, Items: items("config")}},
				{Secret: &v1.SecretProjection{LocalObjectReference: object, Items: items("pass")}},
				{DownwardAPI: &v1.DownwardAPIProjection{Items: []v1.DownwardAPIVolumeFile{label("a")}}},
			}}}},
		{name: "disk", plugin: local.Name, inner: "pv-local", source: claim("local")},
		{name: "net", plugin: csi.Name, inner: "pv-csi", sub: "mount", source: claim("csi")},
		{name: "inline", plugin: csi.Name, sub: "mount", source: v1.VolumeSource{CSI: &v1.CSIVolumeSource{Driver: driver}}},
	}
	if p.Mounts {
		all = append(all, volume{name: "memory", plugin: emptydir.Name, memory: true,
			source: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory, SizeLimit: &limit}}})
	}
	if p.Device != "" {
		all = append(all, volume{name: "device", plugin: local.Name, inner: "pv-device", source: claim("device")})
	}
	for i := range all {
		if all[i].inner == "" {
			all[i].inner = all[i].name
		}
	}
	return all
}

func uidOf(pod int) types.UID { return types.UID("pod-" + strconv.Itoa(pod)) }

// at returns the volume's place for a pod.
func (v volume) at(p place, pod int) volumemanager.Place {
	return volumemanager.Place{Root: p.Root, PodUID: uidOf(pod), Plugin: v.plugin, Inner: v.inner}
}

// path returns the container's path of the volume on the node.
func (v volume) path(p place, pod int) string {
	if v.plugin == hostpath.Name {
		return p.host()
	}
	return filepath.Join(v.at(p, pod).Dir(), v.sub)
}

// pod returns a pod in a version; its annotations contain the version.
func (p place) pod(n, version int) *v1.Pod {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: "p" + strconv.Itoa(n), UID: uidOf(n),
		Annotations: map[string]string{"a": text(version, "a"), "b": text(version, "b")},
	}}
	c := v1.Container{Name: "main"}
	for _, v := range p.volumes() {
		pod.Spec.Volumes = append(pod.Spec.Volumes, v1.Volume{Name: v.name, VolumeSource: v.source})
		c.VolumeMounts = append(c.VolumeMounts, v1.VolumeMount{Name: v.name, MountPath: "/" + v.name})
	}
	pod.Spec.Containers = []v1.Container{c}
	if p.grouped(n) {
		id := int64(group)
		pod.Spec.SecurityContext = &v1.PodSecurityContext{FSGroup: &id}
	}
	return pod
}

// grouped reports whether a pod has an fsGroup.
func (p place) grouped(pod int) bool { return pod%2 == 1 && os.Geteuid() == 0 }

// text returns the value of a key in a version.
func text(version int, key string) string {
	return strings.Repeat(fmt.Sprintf("%07d %s\n", version, key), 60)
}

// keys returns the content of the objects in a version. One of the keys exists in this version
// only.
func keys(version int) map[string]string {
	data := map[string]string{}
	for _, key := range []string{"a", "b", "only-" + strconv.Itoa(version)} {
		data[key] = text(version, key)
	}
	return data
}

// parts returns the requests for subPaths by a container.
func (p place) parts(pod int) []subpath.Request {
	if !p.Mounts {
		return nil
	}
	var out []subpath.Request
	for i, part := range []struct{ volume, sub string }{{"scratch", "some/folder"}, {"config", "a"}, {"host", "folder"}} {
		for _, v := range p.volumes() {
			if v.name == part.volume {
				out = append(out, subpath.Request{
					Place: v.at(p, pod), Volume: v.path(p, pod), SubPath: part.sub, Container: "main", Index: i,
				})
			}
		}
	}
	return out
}

// claims resolves the claims. The returned objects change all the time, and so do their records.
func (p place) claims(_ context.Context, pod *v1.Pod, v v1.Volume) (volumemanager.Spec, error) {
	version, _, _ := strings.Cut(pod.Annotations["a"], " ")
	pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{ResourceVersion: version}, Spec: v1.PersistentVolumeSpec{AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteMany}}}
	switch name := v.PersistentVolumeClaim.ClaimName; name {
	case "local", "device":
		path := map[string]string{"local": p.local(), "device": p.Device}[name]
		pv.Name, pv.Spec.Local = "pv-"+name, &v1.LocalVolumeSource{Path: path}
		pv.Spec.MountOptions = []string{"nosuid", "nodev", "noexec"}
	case "csi":
		pv.Name, pv.Spec.CSI = "pv-csi", &v1.CSIPersistentVolumeSource{Driver: csitest.DefaultName, VolumeHandle: handle}
	default:
		return volumemanager.Spec{}, fmt.Errorf("no claim %q", name)
	}
	return volumemanager.Spec{PV: pv}, nil
}
