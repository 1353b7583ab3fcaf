// SPDX-License-Identifier: Apache-2.0

package containerdtest

import (
	"bytes"
	"text/template"
)

// unused are plugins that slow the start or use paths outside the instance's folders. Some versions
// of containerd lack some of the plugins.
const unused = `disabled_plugins = [
	"io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.blockfile", "io.containerd.snapshotter.v1.btrfs",
	"io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.erofs", "io.containerd.snapshotter.v1.zfs",
	"io.containerd.tracing.processor.v1.otlp", "io.containerd.internal.v1.tracing"
]
`

// A negative oom_score_adj is refused without CAP_SYS_RESOURCE, as in most containers, and runc
// then dies without a message: hence restrict_oom_score_adj.
const configHead = `root = {{printf "%q" .Root}}
state = {{printf "%q" .State}}
` + unused + `
[grpc]
  address = {{printf "%q" .Socket}}
[plugins."io.containerd.internal.v1.opt"]
  path = {{printf "%q" .Opt}}
`

const configV2 = "version = 2\n" + configHead + `
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = {{printf "%q" .Pause}}
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = {{printf "%q" .Hosts}}
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = {{printf "%q" .CNIDir}}
    conf_dir = {{printf "%q" .CNIConf}}
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = {{printf "%q" .Snapshotter}}
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        Root = {{printf "%q" .RuncRoot}}
{{range .Handlers}}
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.{{.}}]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.{{.}}.options]
        Root = {{printf "%q" $.RuncRoot}}
{{end}}`

const configV3 = "version = 3\n" + configHead + `
[plugins.'io.containerd.nri.v1.nri']
  disable = true
[plugins.'io.containerd.cri.v1.images']
  snapshotter = {{printf "%q" .Snapshotter}}
  [plugins.'io.containerd.cri.v1.images'.pinned_images]
    sandbox = {{printf "%q" .Pause}}
  [plugins.'io.containerd.cri.v1.images'.registry]
    config_path = {{printf "%q" .Hosts}}
[plugins.'io.containerd.cri.v1.runtime']
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  [plugins.'io.containerd.cri.v1.runtime'.cni]
    bin_dirs = [{{printf "%q" .CNIDir}}]
    conf_dir = {{printf "%q" .CNIConf}}
  [plugins.'io.containerd.cri.v1.runtime'.containerd]
    default_runtime_name = "runc"
    [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
        Root = {{printf "%q" .RuncRoot}}
{{range .Handlers}}
    [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.{{.}}]
      runtime_type = "io.containerd.runc.v2"
      [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.{{.}}.options]
        Root = {{printf "%q" $.RuncRoot}}
{{end}}`

// networkConfig is the pod network. Pods reach each other and the host, but no other network,
// because masquerading would need iptables, as host ports do. The loopback plugin is run for every
// pod by containerd itself.
const networkConfig = `{
  "cniVersion": "0.4.0",
  "name": {{printf "%q" .Network}},
  "plugins": [
    {
      "type": "bridge",
      "bridge": {{printf "%q" .Network}},
      "isGateway": true,
      "ipam": {
        "type": "host-local",
        "dataDir": {{printf "%q" .CNIData}},
        "ranges": [[{"subnet": {{printf "%q" .Subnet}}}]],
        "routes": [{"dst": "0.0.0.0/0"}]
      }
    }{{if .HostPorts}},
    {"type": "portmap", "capabilities": {"portMappings": true}, "snat": true}{{end}}
  ]
}
`

// configFor returns containerd's configuration for l, in the format of version v.
func configFor(l layout, v version) ([]byte, error) {
	if v.major >= 2 {
		return render(configV3, l)
	}
	return render(configV2, l)
}

func render(text string, l any) ([]byte, error) {
	t, err := template.New("").Parse(text)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = t.Execute(&out, l)
	return out.Bytes(), err
}
