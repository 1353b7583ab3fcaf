// SPDX-License-Identifier: Apache-2.0

// Package nodeconfig reads the kubelet's configuration file, KubeletConfiguration of
// kubelet.config.k8s.io/v1beta1, and a folder of drop-ins, as kubeadm writes them.
//
//	files, err := nodeconfig.Read("/var/lib/kubelet/config.yaml", "/etc/kubernetes/kubelet.conf.d")
//	if err != nil {
//		return err
//	}
//	config, err := nodeconfig.Parse(files)
//	if err != nil {
//		return err // every *FieldError, joined
//	}
//	for _, s := range config.Settings { … } // s.Flag gets s.Value, unless the flag is given
//
// Each field that the agent honours has the effect of a flag, so every rule about a value exists
// once, at the flag. The file fields.txt lists all fields: fields with a flag, fields that must
// have their default, and fields without effect. A field that is missing from fields.txt is a
// Notice.
//
// The package starts no goroutines, and Parse is pure.
//
// # Differences from the kubelet (1.36)
//
//   - If the agent lacks the effect of a field, a value other than the default is an error with the
//     field's name. The kubelet has all effects.
//   - Unknown fields of drop-ins are notices, too, and relative paths count from the folder of
//     their file. In the kubelet both hold for the main file only.
//   - A zero value in a drop-in resets a field to its default, as null does.
//   - Without serializeImagePulls and maxParallelImagePulls, four images are pulled at the same time.
//     The kubelet pulls one.
//   - Without enableProfilingHandler, no profiles are served.
//   - YAML aliases are refused.
package nodeconfig
