// SPDX-License-Identifier: Apache-2.0

// Package hotplug stops and starts the containers of a pod when its devices are unplugged and plugged
// in again, perhaps as other device nodes.
//
//	options.Features = func(h *feature.Host) []feature.Feature {
//		return []feature.Feature{hotplug.New(h, hotplug.Options{})}
//	}
//
// A pod has a Policy in the annotation "keelson.dev/unplugged", and names its devices as hostPath
// volumes of type CharDevice or BlockDevice, by a link that udev makes, such as
// /dev/serial/by-id/NAME. A pod without the annotation behaves as on a kubelet.
//
// If a device is missing at the start of a pod, the pod waits, and an event with the reason
// DeviceUnplugged names the device. A link out of /dev or to another kind of file counts as a
// missing device. All containers of the pod are stopped and started together, in a new sandbox, so
// that a runtime grants the new device number and no longer the old number. The pure function
// Decide has the rules.
//
// # Limits
//
//   - Devices are looked at every 200 ms, while pods with the annotation exist.
//   - With Keep and Restart, containers may open the old device number until they are restarted.
//   - The file hotplug.json in the node's root folder tells the next agent the devices of the running
//     containers, so that a device that is replugged while no agent runs is noticed. An agent that is
//     killed within a moment of a start leaves no entry. Then the containers count as started with the
//     present devices.
package hotplug
