// SPDX-License-Identifier: Apache-2.0

package process

import (
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/process/internal/walls"
)

func decode(t *testing.T, text string) *v1.Pod {
	t.Helper()
	var pod v1.Pod
	require.NoError(t, yaml.UnmarshalStrict([]byte(text), &pod))
	return &pod
}

// ordinary is a pod as the API server defaults it.
const ordinary = `
metadata: {name: p, namespace: default}
spec:
  dnsPolicy: ClusterFirst
  enableServiceLinks: true
  preemptionPolicy: PreemptLowerPriority
  priority: 0
  restartPolicy: Always
  schedulerName: default-scheduler
  securityContext: {}
  serviceAccountName: default
  terminationGracePeriodSeconds: 30
  hostname: p
  tolerations: [{effect: NoExecute, key: node.kubernetes.io/not-ready, operator: Exists, tolerationSeconds: 300}]
  volumes:
  - {name: token, projected: {sources: [{serviceAccountToken: {path: token}}]}}
  - {name: data, emptyDir: {}}
  containers:
  - name: c
    image: busybox
    imagePullPolicy: Always
    command: ["true"]
    ports: [{containerPort: 80, protocol: TCP}, {containerPort: 81, hostPort: 81}]
    resources: {requests: {cpu: 1, memory: 1Gi}}
    terminationMessagePath: /dev/termination-log
    terminationMessagePolicy: File
    livenessProbe: {exec: {command: ["true"]}}
    lifecycle: {preStop: {exec: {command: ["true"]}}, stopSignal: SIGUSR1}
    securityContext: {privileged: false, allowPrivilegeEscalation: false, readOnlyRootFilesystem: false, seccompProfile: {type: Unconfined}}
    volumeMounts:
    - {name: token, mountPath: /var/run/secrets/kubernetes.io/serviceaccount, readOnly: true}
    - {name: data, mountPath: /data}
`

func TestOrdinaryPodsPass(t *testing.T) {
	pod := decode(t, ordinary)
	assert.Empty(t, hostCheck(t).pod(pod))
	pod.Spec.HostNetwork, pod.Spec.HostPID, pod.Spec.HostIPC = true, true, true
	assert.Empty(t, hostCheck(t).pod(pod), "what is asked for is what there is")
	uid, gid := int64(os.Getuid()), int64(os.Getgid())
	pod.Spec.SecurityContext = &v1.PodSecurityContext{RunAsUser: &uid, RunAsGroup: &gid, FSGroup: &gid}
	assert.Empty(t, hostCheck(t).pod(pod))
}

func TestHardenedPodsPassWithoutRoot(t *testing.T) {
	pod := decode(t, `
spec:
  securityContext: {runAsNonRoot: true}
  containers:
  - {name: c, command: ["true"], securityContext: {capabilities: {drop: [ALL]}, runAsNonRoot: true, allowPrivilegeEscalation: false}}
`)
	able := walls.Host{Linux: true, Landlock: walls.LeastForFiles, Seccomp: true}
	user := &check{uid: 1000, gid: 1000, goos: "linux", host: able}
	assert.Empty(t, user.pod(pod))
	root := &check{goos: "linux", host: walls.Host{Linux: true, Root: true}}
	assert.Equal(t, []string{
		"spec.containers[0].securityContext.capabilities.drop", "spec.containers[0].securityContext.runAsNonRoot",
		"spec.securityContext.runAsNonRoot",
	}, bare(root.pod(pod)))
}

// NET_BIND_SERVICE is not needed for ports on which every user may listen.
func TestPortsForEveryUser(t *testing.T) {
	for ports, refused := range map[string]bool{"": true, "{containerPort: 80}": false, "{containerPort: 80}, {containerPort: 53}": true} {
		pod := decode(t, `
spec:
  containers:
  - {name: c, command: ["true"], ports: [`+ports+`], securityContext: {capabilities: {add: [NET_BIND_SERVICE]}}}
`)
		c := &check{uid: 1000, gid: 1000, goos: "linux", host: walls.Host{Linux: true, Landlock: walls.LeastForFiles, Seccomp: true, FreePorts: 80}}
		if fields := bare(c.pod(pod)); refused {
			assert.Equal(t, []string{"spec.containers[0].securityContext.capabilities.add"}, fields, ports)
		} else {
			assert.Empty(t, fields, ports)
		}
	}
}

// A pod with a network of its own has every port, and any host port leads to it.
func TestPortsOfPodsWithNetworks(t *testing.T) {
	pod := decode(t, `
spec:
  containers:
  - name: c
    command: ["true"]
    ports: [{containerPort: 53, hostPort: 5353, hostIP: 127.0.0.1, protocol: UDP}, {containerPort: 9, hostPort: 9, protocol: SCTP}]
    securityContext: {capabilities: {add: [NET_BIND_SERVICE]}}
`)
	const port = "spec.containers[0].ports"
	c := check{uid: 1000, gid: 1000, goos: "linux", networks: true, host: walls.Host{Linux: true, Landlock: walls.LeastForFiles, Seccomp: true, FreePorts: 1024}}
	onHost := c
	assert.Equal(t, []string{port + "[1].protocol"}, bare(c.pod(pod)))
	pod.Spec.HostNetwork = true
	assert.Equal(t, []string{port + "[0].hostPort", port + "[0].hostIP", "spec.containers[0].securityContext.capabilities.add"}, bare(onHost.pod(pod)))
}

// A pod that asks for a profile by the annotations of before does not run without.
func TestOldProfileAnnotationsAreRefused(t *testing.T) {
	pod := decode(t, ordinary)
	pod.Annotations = map[string]string{
		"seccomp.security.alpha.kubernetes.io/pod":              "runtime/default",
		"container.seccomp.security.alpha.kubernetes.io/main":   "localhost/p.json",
		"container.apparmor.security.beta.kubernetes.io/main":   "localhost/p",
		"container.apparmor.security.beta.kubernetes.io/second": "unconfined",
	}
	assert.Equal(t, []string{
		"metadata.annotations[container.apparmor.security.beta.kubernetes.io/main]",
		"metadata.annotations[container.seccomp.security.alpha.kubernetes.io/main]",
		"metadata.annotations[seccomp.security.alpha.kubernetes.io/pod]",
	}, bare(hostCheck(t).pod(pod)))
}

// restricted has every field that Pod Security "restricted" asks for, and a read-only root file system.
const restricted = `
metadata: {name: p, namespace: default}
spec:
  securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}
  volumes:
  - {name: config, configMap: {name: c}}
  - {name: data, emptyDir: {}}
  containers:
  - name: c
    image: busybox
    command: ["true"]
    securityContext:
      allowPrivilegeEscalation: false
      readOnlyRootFilesystem: true
      runAsNonRoot: true
      capabilities: {drop: [ALL]}
      seccompProfile: {type: RuntimeDefault}
    volumeMounts:
    - {name: config, mountPath: /etc/c, readOnly: true}
    - {name: data, mountPath: /data, readOnly: true}
`

func TestRestrictedPodsPassWithoutRoot(t *testing.T) {
	pod := decode(t, restricted)
	able := walls.Host{Linux: true, Landlock: walls.LeastForFiles, Seccomp: true}
	assert.Empty(t, (&check{uid: 1000, gid: 1000, goos: "linux", host: able}).pod(pod))
	c := "spec.containers[0]."
	for _, tt := range []struct {
		name string
		host walls.Host
		want []string
	}{
		{"no Landlock", walls.Host{Linux: true, Seccomp: true}, []string{c + "securityContext.readOnlyRootFilesystem"}},
		{"no filters", walls.Host{Linux: true, Landlock: 7}, []string{c + "securityContext.seccompProfile", "spec.securityContext.seccompProfile"}},
	} {
		assert.Equal(t, tt.want, bare((&check{uid: 1000, gid: 1000, goos: "linux", host: tt.host}).pod(pod)), tt.name)
	}
	no := false
	pod.Spec.Containers[0].SecurityContext.ReadOnlyRootFilesystem = &no
	assert.Equal(t, []string{c + "volumeMounts[1].readOnly"}, bare((&check{uid: 1000, gid: 1000, goos: "linux", host: able}).pod(pod)))
}

// An agent that is not root honours an fsGroup that is the group of every container.
func TestFSGroupOfAllContainers(t *testing.T) {
	const one, other = "{name: a, command: [a]}", "{name: b, command: [b], securityContext: {runAsGroup: 7}}"
	isolated := check{uid: 1000, gid: 1000, goos: "linux", isolated: true, confine: true, host: walls.Host{Linux: true, Namespaces: true}}
	open := isolated
	open.isolated = false
	for _, tt := range []struct {
		name, context, containers string
		check                     check
		want                      bool
	}{
		{"the group of the pod", "{runAsGroup: 5, fsGroup: 5}", one, isolated, true},
		{"the group of each container", "{fsGroup: 7}", other, isolated, true},
		{"another group of a container", "{runAsGroup: 5, fsGroup: 5}", one + ", " + other, isolated, false},
		{"the image's group", "{fsGroup: 5}", one, isolated, false},
		{"no namespaces", "{runAsGroup: 5, fsGroup: 5}", one, open, false},
	} {
		pod := decode(t, "spec: {securityContext: "+tt.context+", containers: ["+tt.containers+"]}")
		assert.Equal(t, tt.want, tt.check.mapsGroup(pod), tt.name)
	}
}

// hostCheck is the check of a backend on this machine.
func hostCheck(t *testing.T) *check {
	rt, err := New(Options{Root: t.TempDir()})
	require.NoError(t, err)
	return rt.newCheck()
}

// bare removes the reasons.
func bare(fields []string) []string {
	for i, f := range fields {
		fields[i], _, _ = strings.Cut(f, " (")
	}
	return fields
}

// demanding asks for everything that cannot be had.
const demanding = `
metadata: {name: p, namespace: default}
spec:
  securityContext:
    seLinuxOptions: {level: s0}
    windowsOptions: {}
    runAsUser: 4294967294
    runAsGroup: 4294967294
    supplementalGroups: [1]
    supplementalGroupsPolicy: Strict
    fsGroup: 4294967294
    sysctls: [{name: a, value: b}]
    seccompProfile: {type: RuntimeDefault}
    appArmorProfile: {type: RuntimeDefault}
  dnsPolicy: None
  subdomain: sub
  hostAliases: [{ip: 1.2.3.4}]
  dnsConfig: {}
  runtimeClassName: x
  overhead: {cpu: 1}
  setHostnameAsFQDN: true
  os: {name: windows}
  hostUsers: false
  resourceClaims: [{name: x}]
  resources: {limits: {cpu: 1}}
  volumes: [{name: d, emptyDir: {}}]
  initContainers: [{name: i, image: x}]
  containers:
  - name: c
    command: ["true"]
    ports: [{containerPort: 1, hostPort: 2, hostIP: 10.0.0.1}]
    resources: {limits: {memory: 1}, claims: [{name: x}]}
    volumeMounts:
    - {name: d, mountPath: /, readOnly: true, recursiveReadOnly: Enabled, subPath: s, mountPropagation: HostToContainer, subPathExpr: e, bindMountOptions: [noexec]}
    - {name: d, mountPath: /a}
    - {name: d, mountPath: /a/b}
    - {name: d, mountPath: /a/}
    volumeDevices: [{name: d, devicePath: /dev/x}]
    lifecycle: {stopSignal: SIGNOPE}
    terminationMessagePath: /a/message
    securityContext:
      capabilities: {add: [SYS_ADMIN]}
      privileged: true
      seLinuxOptions: {}
      windowsOptions: {}
      runAsUser: 4294967294
      runAsGroup: 4294967294
      readOnlyRootFilesystem: true
      procMount: Unmasked
      seccompProfile: {type: Localhost, localhostProfile: x}
      appArmorProfile: {type: Localhost, localhostProfile: x}
    stdin: true
    tty: true
  ephemeralContainers: [{name: e, command: ["true"], tty: true}]
`

func TestRefusalListsEverything(t *testing.T) {
	c, p := "spec.containers[0].", "spec.securityContext."
	want := []string{
		"spec.initContainers[0].command",
		c + "ports[0].hostPort", c + "ports[0].hostIP", c + "resources.limits.memory", c + "resources.claims",
		c + "volumeMounts[0].recursiveReadOnly", c + "volumeMounts[0].mountPath", c + "volumeMounts[0].mountPropagation",
		c + "volumeMounts[0].bindMountOptions", c + "volumeMounts[2].mountPath", c + "volumeMounts[3].mountPath",
		c + "volumeDevices", c + "lifecycle.stopSignal", c + "terminationMessagePath",
		c + "securityContext.capabilities.add", c + "securityContext.readOnlyRootFilesystem",
		c + "securityContext.privileged", c + "securityContext.seLinuxOptions",
		c + "securityContext.windowsOptions", c + "securityContext.runAsUser", c + "securityContext.runAsGroup",
		c + "securityContext.procMount",
		c + "securityContext.seccompProfile", c + "securityContext.appArmorProfile", c + "stdin", c + "tty",
		"spec.ephemeralContainers[0].tty",
		p + "seLinuxOptions", p + "windowsOptions", p + "runAsUser", p + "runAsGroup", p + "supplementalGroups",
		p + "supplementalGroupsPolicy", p + "fsGroup", p + "sysctls", p + "seccompProfile", p + "appArmorProfile",
		"spec.dnsPolicy", "spec.subdomain", "spec.hostAliases", "spec.dnsConfig", "spec.runtimeClassName", "spec.overhead",
		"spec.setHostnameAsFQDN", "spec.os", "spec.hostUsers", "spec.resourceClaims", "spec.resources.limits.cpu",
	}
	rt, err := New(Options{Root: t.TempDir()})
	require.NoError(t, err)
	rt.host = walls.Host{} // a host without any wall
	pod := decode(t, demanding)
	before := pod.DeepCopy()
	err = rt.CheckPod(pod)
	var refusal *runtime.UnsupportedError
	require.ErrorAs(t, err, &refusal)
	require.ErrorIs(t, err, runtime.ErrUnsupported)
	for _, f := range refusal.Fields {
		assert.Regexp(t, `^spec\.[^ ]+ \([^)]+\)$`, f, "path and reason")
	}
	assert.Equal(t, want, bare(slices.Clone(refusal.Fields)))
	assert.Equal(t, before, pod, "the pod is not written")

	lenient, err := New(Options{Root: t.TempDir(), Lenient: true})
	require.NoError(t, err)
	require.ErrorAs(t, lenient.CheckPod(pod), &refusal)
	assert.Equal(t, []string{"spec.initContainers[0].command"}, bare(refusal.Fields))
}

func TestGroupsOfVolumes(t *testing.T) {
	own := []int{5, 7}
	require.NoError(t, refuseGroups(nil, own, 1000))
	require.NoError(t, refuseGroups([]int64{7, 5}, own, 1000))
	require.NoError(t, refuseGroups([]int64{12}, own, 0), "root reads everything")
	err := refuseGroups([]int64{7, 12}, own, 1000)
	require.ErrorIs(t, err, runtime.ErrUnsupported)
	require.ErrorContains(t, err, "group 12 of a volume")
	require.NotContains(t, err.Error(), "group 7 ")
}

// TestEveryFieldIsClassified fails if the API has an unclassified field: refuse the field in
// check.go, or name it here.
func TestEveryFieldIsClassified(t *testing.T) {
	for _, tt := range []struct {
		of      any
		refused string // in some circumstances, by check.go
		fine    string // honoured, or not the backend's business
	}{
		{v1.PodSpec{},
			"initContainers containers ephemeralContainers dnsPolicy securityContext subdomain hostAliases dnsConfig runtimeClassName " +
				"overhead setHostnameAsFQDN os hostUsers resourceClaims resources",
			"volumes restartPolicy terminationGracePeriodSeconds activeDeadlineSeconds nodeSelector serviceAccountName serviceAccount " +
				"automountServiceAccountToken nodeName hostNetwork hostPID hostIPC shareProcessNamespace imagePullSecrets hostname " +
				"affinity schedulerName tolerations priorityClassName priority readinessGates enableServiceLinks preemptionPolicy " +
				"topologySpreadConstraints schedulingGates hostnameOverride schedulingGroup evictionResponders"},
		{v1.Container{},
			"command ports resources volumeMounts volumeDevices lifecycle terminationMessagePath securityContext stdin tty",
			"name image args workingDir envFrom env resizePolicy restartPolicy restartPolicyRules livenessProbe readinessProbe " +
				"startupProbe terminationMessagePolicy imagePullPolicy stdinOnce"},
		{v1.SecurityContext{},
			"capabilities privileged seLinuxOptions windowsOptions runAsUser runAsGroup runAsNonRoot readOnlyRootFilesystem " +
				"allowPrivilegeEscalation procMount seccompProfile appArmorProfile", ""},
		{v1.PodSecurityContext{},
			"seLinuxOptions windowsOptions runAsUser runAsGroup runAsNonRoot supplementalGroups supplementalGroupsPolicy fsGroup " +
				"sysctls seccompProfile appArmorProfile",
			"fsGroupChangePolicy seLinuxChangePolicy"},
		{v1.VolumeMount{}, "readOnly recursiveReadOnly mountPath mountPropagation bindMountOptions", "name subPath subPathExpr"},
		{v1.ContainerPort{}, "hostPort hostIP", "name containerPort protocol"},
		{v1.Lifecycle{}, "stopSignal", "postStart preStop"},
		{v1.ResourceRequirements{}, "limits claims", "requests"},
		{v1.Capabilities{}, "add drop", ""},
	} {
		typ := reflect.TypeOf(tt.of)
		var have []string
		for i := range typ.NumField() {
			name, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
			have = append(have, name)
		}
		assert.ElementsMatch(t, append(strings.Fields(tt.refused), strings.Fields(tt.fine)...), have, "fields of %s", typ)
	}
}
