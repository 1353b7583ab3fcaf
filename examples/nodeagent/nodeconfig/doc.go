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
// Each field that the agent honours is one of its flags, so that a rule about a value stands once. The
// file fields.txt has all fields: those that are flags, those that have to have their default, and those
// that are accepted without effect. A field that is not in fields.txt is a Notice.
//
// The package starts no goroutines, and Parse is pure.
//
// Differences from the kubelet (1.36):
//
//   - A field with an effect that the agent does not have is an error that names the field, unless the
//     value is the default. The kubelet has no such fields.
//   - Unknown fields of drop-ins are noticed, too, and relative paths count from the folder of the file
//     that they are in. In the kubelet both are so for the main file only.
//   - A zero value of a drop-in sets a field back to its default, as null does.
//   - YAML aliases are refused.
package nodeconfig
