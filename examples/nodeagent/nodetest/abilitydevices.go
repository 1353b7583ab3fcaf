// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/runtime/fake"
	"github.com/keelson-dev/keelson/volumemanager"
)

// Shared volumes of VolumeDriver: volumes with names that begin with "disk". A shared volume is
// staged once for the node, from before its first pod until after its last pod.

// The operations of agents on devices, for Node.CrashAgentOn.
const (
	OpMountDevice   fake.Op = "MountDevice"
	OpUnmountDevice fake.Op = "UnmountDevice"
)

// The operations on devices, in events without a pod.
const (
	DeviceReady   VolumeAct = "device is staged"
	DeviceLeaving VolumeAct = "device is unstaged"
	DeviceGone    VolumeAct = "device is gone"
)

func sharing() ability {
	return ability{
		fields: func(g *generator, before string) string {
			s := pick(g, "", "", " volume=disk", " volume=data,disk")
			if strings.Contains(before, " volume=") {
				s = ""
			}
			return s + pick(g, "", "", "", " user=1000", " user=c:7", " user=1000 user=c:7", " user=7 user=c:7")
		},
		check: func(c *checker) { c.devices(); c.owned() }, judge: (*peace).staged,
	}
}

// deviceOf returns the name of the shared volume behind a volume of VolumeDriver, or "" for the
// pod's own volume.
func deviceOf(volume *v1.Volume) string {
	if volume == nil || volume.FlexVolume == nil || !strings.HasPrefix(volume.Name, "disk") {
		return ""
	}
	return volume.Name
}

var _ volumemanager.DeviceMounter = (*volumePlugin)(nil)

// VolumeID implements volumemanager.Shared.
func (*volumePlugin) VolumeID(spec volumemanager.Spec) (string, error) {
	return deviceOf(spec.Volume), nil
}

// DeviceDir implements volumemanager.DeviceMounter.
func (*volumePlugin) DeviceDir(root string, spec volumemanager.Spec) (string, error) {
	if device := deviceOf(spec.Volume); device != "" {
		return filepath.Join(root, "plugins", "nodetest", device), nil
	}
	return "", nil
}

// MountDevice implements volumemanager.DeviceMounter.
func (p *volumePlugin) MountDevice(ctx context.Context, d volumemanager.Device) error {
	_, err := through(ctx, p.lease, fake.Call{Op: OpMountDevice}, func(ctx context.Context) (struct{}, error) {
		if err := p.disk.spin(ctx); err != nil {
			return struct{}{}, err
		}
		if err := p.disk.note(deviceOf(d.Spec.Volume), DeviceReady); err != nil {
			return struct{}{}, err
		}
		return struct{}{}, os.MkdirAll(d.Dir, 0o750)
	})
	return err
}

// UnmountDevice implements volumemanager.DeviceMounter.
func (p *volumePlugin) UnmountDevice(ctx context.Context, d volumemanager.Device) error {
	_, err := through(ctx, p.lease, fake.Call{Op: OpUnmountDevice}, func(ctx context.Context) (struct{}, error) {
		if err := p.disk.note(filepath.Base(d.Dir), DeviceLeaving); err != nil {
			return struct{}{}, err
		}
		if err := p.disk.spin(ctx); err != nil {
			return struct{}{}, err
		}
		if err := p.disk.note(filepath.Base(d.Dir), DeviceGone); err != nil {
			return struct{}{}, err
		}
		return struct{}{}, os.RemoveAll(d.Dir)
	})
	return err
}

// note is add for a device.
func (d *disk) note(device string, what VolumeAct) error {
	return d.add(volumemanager.Place{Inner: device}, what, nil, nil)
}

// devices checks that a shared volume is staged while a pod has it.
func (c *checker) devices() {
	staged, users := make(map[string]bool), make(map[podVolume]bool)
	for _, e := range c.h.Volumes {
		switch {
		case e.What == DeviceReady:
			staged[e.Volume] = true
		case e.What == DeviceLeaving:
			for user := range users {
				if user.volume == e.Volume {
					c.violate(e.At, "device %s is unstaged, and %s has it", e.Volume, user.uid)
				}
			}
			staged[e.Volume] = false
		case e.UID == "" || !strings.HasPrefix(e.Volume, "disk"):
		case e.What == VolumeReady:
			if users[podVolume{e.UID, e.Volume}] = true; !staged[e.Volume] {
				c.violate(e.At, "volume %s of %s is set up, and its device is not staged", e.Volume, e.UID)
			}
		case e.What == VolumeGone:
			delete(users, podVolume{e.UID, e.Volume})
		}
	}
}

// staged judges on a peaceful node that a device is staged once, and only while pods want it.
func (p *peace) staged() {
	since := make(map[string]time.Duration)
	for _, e := range p.h.Volumes {
		before, is := since[e.Volume]
		switch {
		case e.What == DeviceReady && is && !p.agentBetween(before, e.At):
			p.violate(e.At, "device %s is staged, and has been since %.3fs", e.Volume, before.Seconds())
		case e.What == DeviceReady:
			since[e.Volume] = e.At
		case e.What == DeviceLeaving:
			delete(since, e.Volume)
		}
	}
}

// devicesLeft returns the shared volumes that are still staged.
func (d *disk) devicesLeft() (left []string) {
	staged := make(map[string]bool)
	for _, e := range d.events() {
		switch e.What {
		case DeviceReady:
			staged[e.Volume] = true
		case DeviceGone:
			staged[e.Volume] = false
		}
	}
	for device, is := range staged {
		if is {
			left = append(left, device)
		}
	}
	return left
}

// owners takes the users of a pod and of its containers.
func (a *args) owners(pod *v1.Pod) {
	for {
		word, ok := a.option("user")
		if !ok {
			return
		}
		name, id, of := strings.Cut(word, ":")
		if !of {
			if pod.Spec.SecurityContext == nil {
				pod.Spec.SecurityContext = &v1.PodSecurityContext{}
			}
			pod.Spec.SecurityContext.RunAsUser = new(int64(a.toNumber(name)))
			continue
		}
		for _, c := range allContainers(pod) {
			if c.Name == name {
				c.SecurityContext = &v1.SecurityContext{RunAsUser: new(int64(a.toNumber(id)))}
			}
		}
	}
}

// ownerOf returns the common user of all containers of a pod, or nil.
func ownerOf(pod *v1.Pod) (user *int64) {
	all := allContainers(pod)
	for i := range pod.Spec.EphemeralContainers {
		all = append(all, (*v1.Container)(&pod.Spec.EphemeralContainers[i].EphemeralContainerCommon))
	}
	for i, c := range all {
		var own *int64
		if pod.Spec.SecurityContext != nil {
			own = pod.Spec.SecurityContext.RunAsUser
		}
		if c.SecurityContext != nil {
			own = c.SecurityContext.RunAsUser
		}
		if own == nil || i > 0 && *own != *user {
			return nil
		}
		user = own
	}
	return user
}

// owned checks that a volume is set up for the common user of its pod's containers, according to a
// manifest of the pod.
func (c *checker) owned() {
	manifests := c.manifests()
	for _, e := range c.h.Volumes {
		if e.What == VolumeReady && len(manifests[e.UID]) > 0 && !slices.ContainsFunc(manifests[e.UID], func(pod *v1.Pod) bool {
			user := ownerOf(pod)
			return (user == nil) == (e.User == nil) && (user == nil || *user == *e.User)
		}) {
			c.violate(e.At, "volume %s of %s is set up for user %v", e.Volume, e.UID, e.User)
		}
	}
}
