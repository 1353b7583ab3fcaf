// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
)

// executor carries operations out. Its only state is on disk.
type executor struct {
	pods     Pods
	node     Node
	subpaths Subpaths
	records  recordFiles
	group    func(*v1.Pod) *int64
	timeout  time.Duration // of all operations except attaching
	attach   time.Duration
}

// limit returns the timeout of o.
func (e executor) limit(o *operation) time.Duration {
	if o.kind == OpVerifyAttached {
		return e.attach
	}
	return e.timeout
}

// execute calls the plugin. Errors name the failed step; the operation names the volume.
func (e executor) execute(ctx context.Context, o *operation) outcome {
	switch o.kind {
	case OpMount, OpRefresh:
		return e.setUp(ctx, o)
	case OpUnmount:
		return e.tearDown(ctx, o)
	case OpVerifyAttached:
		return e.verifyAttached(ctx, o)
	case OpMountDevice:
		return outcome{err: e.mountDevice(ctx, o)}
	case OpUnmountDevice:
		return outcome{err: e.unmountDevice(ctx, o)}
	}
	return e.expand(ctx, o)
}

// setUp writes the mount record, calls SetUp, then expands the volume if due.
func (e executor) setUp(ctx context.Context, o *operation) outcome {
	existed, err := e.records.writeMount(o)
	if err != nil {
		return outcome{err: Transient(fmt.Errorf("write the mount record: %w", err))}
	}
	// An unexpected record counts like a volume found by Reconstruct.
	found := o.found || existed && o.state == StateNotMounted
	m := Mount{
		Place: o.place, Spec: o.spec, Pod: o.pod, Outer: slices.Clone(o.outer),
		DevicePath: o.device.Path, DeviceDir: o.device.Dir,
		Remount: o.kind == OpRefresh, Reconstructed: found, FSUser: fsUser(o.pod),
		FSGroup: e.group(o.pod),
	}
	if sc := o.pod.Spec.SecurityContext; sc != nil {
		m.ChangePolicy = sc.FSGroupChangePolicy
	}
	out := outcome{found: found}
	if o.spec.Block() {
		out.mounted, out.err = o.plugin.(BlockMapper).MapBlock(ctx, m) // identify refuses other plugins
	} else {
		out.mounted, out.err = o.plugin.SetUp(ctx, m)
	}
	switch {
	case out.err == nil && !o.to.IsZero():
		o.path = out.mounted.Path
		grown := e.expand(ctx, o)
		grown.mounted, grown.found = out.mounted, found
		// The volume is mounted but not ready: it must be torn down.
		grown.err = Uncertain(grown.err)
		return grown
	case !found && afterMount(o.state, found, out.err) == StateNotMounted:
		// Nothing of the volume is left, so the record is not needed.
		out.err = keepClass(out.err, e.records.removeMount(o.place))
	}
	return out
}

// keepClass joins err to the plugin's error and keeps the plugin's class.
func keepClass(plugin, err error) error {
	if err == nil {
		return plugin
	}
	return classify(classOf(plugin), errors.Join(plugin, err))
}

// tearDown asks Pods again whether the pod is gone, tears the volume down and removes its record.
func (e executor) tearDown(ctx context.Context, o *operation) outcome {
	if !e.pods.ShouldPodRuntimeBeRemoved(o.uid) {
		return outcome{alive: true}
	}
	if e.subpaths != nil {
		if err := e.subpaths.CleanSubpaths(ctx, o.place); err != nil {
			return outcome{err: fmt.Errorf("clean up subpaths: %w", err)}
		}
	}
	u := Unmount{Place: o.place, Spec: o.spec, Path: o.path, DeviceDir: o.device.Dir}
	var err error
	if mapper, ok := o.plugin.(BlockMapper); o.spec.Block() && ok {
		err = mapper.UnmapBlock(ctx, u)
	} else {
		err = o.plugin.TearDown(ctx, u)
	}
	if err != nil {
		return outcome{err: err}
	}
	if err := e.records.removeMount(o.place); err != nil {
		return outcome{err: fmt.Errorf("remove the mount record: %w", err)}
	}
	return outcome{}
}

// verifyAttached reads the node's status, then calls the plugin's WaitForAttach. isAttachable has
// found both.
func (e executor) verifyAttached(ctx context.Context, o *operation) outcome {
	attached, err := e.node.AttachedVolumes(ctx)
	if err != nil {
		return outcome{err: Transient(fmt.Errorf("read the attached volumes of the node: %w", err))}
	}
	hint, ok := attached[o.volume]
	if !ok {
		return outcome{err: Transient(errNotAttached)}
	}
	path, err := o.plugin.(Attacher).WaitForAttach(ctx, o.spec, hint)
	return outcome{devicePath: path, err: err}
}

func (e executor) mountDevice(ctx context.Context, o *operation) error {
	mounter, ok := o.plugin.(DeviceMounter)
	if !ok {
		return Terminal(errors.New("the plugin stages no volumes"))
	}
	if err := e.records.writeDevice(o); err != nil {
		return Transient(fmt.Errorf("write the device record: %w", err))
	}
	err := mounter.MountDevice(ctx, o.device)
	if err != nil && afterMount(o.state, o.found, err) == StateNotMounted {
		err = keepClass(err, e.records.removeDevice(o.volume))
	}
	return err
}

func (e executor) unmountDevice(ctx context.Context, o *operation) error {
	mounter, ok := o.plugin.(DeviceMounter)
	if !ok {
		return errors.New("the plugin stages no volumes")
	}
	if err := mounter.UnmountDevice(ctx, o.device); err != nil {
		return err
	}
	if err := e.records.removeDevice(o.volume); err != nil {
		return fmt.Errorf("remove the device record: %w", err)
	}
	return nil
}

// expand grows a volume for which volume.grows holds.
func (e executor) expand(ctx context.Context, o *operation) outcome {
	err := o.plugin.(Expander).Expand(ctx, Expansion{Device: o.device, MountedPath: o.path, From: o.from, To: o.to})
	switch {
	case err == nil:
		return outcome{grown: o.to}
	case errors.Is(classOf(err), ErrTerminal):
		return outcome{refused: true}
	}
	return outcome{err: fmt.Errorf("expand from %s to %s: %w", o.from.String(), o.to.String(), err)}
}
