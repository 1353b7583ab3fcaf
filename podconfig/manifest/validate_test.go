// SPDX-License-Identifier: Apache-2.0

package manifest_test

import (
	"fmt"
	goruntime "runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/keelson-dev/keelson/podconfig/manifest"
)

// validated returns the errors of Validate for a pod of the given spec after SetDefaults. A spec
// without "containers" gets a container "main" of image "i".
func validated(t *testing.T, spec string) []string {
	t.Helper()
	pod := &v1.Pod{}
	pod.Name, pod.Namespace = "a", "b"
	require.NoError(t, yaml.UnmarshalStrict([]byte(spec), &pod.Spec))
	if !strings.Contains(spec, "containers:") {
		pod.Spec.Containers = []v1.Container{{Name: "main", Image: "i"}}
	}
	manifest.SetDefaults(pod)
	texts := []string{}
	for _, err := range manifest.Validate(pod) {
		texts = append(texts, err.Error())
	}
	return texts
}

// rule is a spec and the beginnings of all its errors in order; none for a valid spec.
type rule struct {
	name, spec string
	want       []string
}

func check(t *testing.T, rules []rule) {
	t.Helper()
	for _, tt := range rules {
		t.Run(tt.name, func(t *testing.T) {
			got := validated(t, tt.spec)
			require.Len(t, got, len(tt.want), "%q", got)
			for i := range got {
				assert.True(t, strings.HasPrefix(got[i], tt.want[i]), "%q is not %q", got[i], tt.want[i])
				assert.NotContains(t, got[i], "\n")
			}
		})
	}
}

func container(fields string) string { return "{containers: [{name: main, image: i, " + fields + "}]}" }

func TestValidatePod(t *testing.T) {
	check(t, []rule{
		{"minimal", "{}", nil},
		{"no containers", "{containers: []}", []string{"spec.containers: Required value"}},
		{"restart policy", "{restartPolicy: Sometimes}", []string{`spec.restartPolicy: Unsupported value: "Sometimes": supported values: "Always", "OnFailure", "Never"`}},
		{"grace period", "{terminationGracePeriodSeconds: -1}", []string{"spec.terminationGracePeriodSeconds: Invalid value: -1: must not be negative"}},
		{"deadline", "{activeDeadlineSeconds: 0}", []string{"spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and"}},
		{"dns policy", "{dnsPolicy: Maybe}", []string{`spec.dnsPolicy: Unsupported value: "Maybe"`}},
		{"dns none", "{dnsPolicy: None}", []string{"spec.dnsConfig.nameservers: Required value"}},
		{"dns none with server", "{dnsPolicy: None, dnsConfig: {nameservers: [1.1.1.1], searches: [a.b., _x.y], options: [{name: ndots}]}}", nil},
		{"dns", "{dnsConfig: {nameservers: [a], searches: ['A b'], options: [{}]}}", []string{
			`spec.dnsConfig.nameservers[0]: Invalid value: "a"`, `spec.dnsConfig.searches[0]: Invalid value: "A b"`, "spec.dnsConfig.options[0].name: Required value"}},
		{"hostname", "{hostname: a.b, subdomain: A}", []string{`spec.hostname: Invalid value: "a.b"`, `spec.subdomain: Invalid value: "A"`}},
		{"hostname override", "{hostnameOverride: A, hostNetwork: true}", []string{"spec.hostnameOverride: Invalid", "spec.hostnameOverride: Forbidden"}},
		{"host aliases", "{hostAliases: [{ip: a, hostnames: ['-']}]}", []string{"spec.hostAliases[0].ip: Invalid", "spec.hostAliases[0].hostnames[0]: Invalid"}},
		{"node selector", "{nodeSelector: {'a b': c, d: 'e f'}}", []string{"spec.nodeSelector[a b]: Invalid", "spec.nodeSelector[d]: Invalid"}},
		{"ephemeral containers", "{ephemeralContainers: [{name: a}]}", []string{"spec.ephemeralContainers: Forbidden: cannot be set on create"}},
		{"scheduling gates", "{schedulingGates: [{name: a}]}", []string{"spec.schedulingGates: Forbidden"}},
		{"os", "{os: {name: beos}}", []string{`spec.os.name: Unsupported value: "beos"`}},
		{"process namespaces", "{hostPID: true, shareProcessNamespace: true}", []string{"spec.shareProcessNamespace: Forbidden"}},
		{"names", "{serviceAccountName: ../a, runtimeClassName: A, priorityClassName: B, readinessGates: [{conditionType: ' '}]}", []string{
			"spec.serviceAccountName: Invalid", "spec.runtimeClassName: Invalid", "spec.priorityClassName: Invalid", "spec.readinessGates[0].conditionType: Invalid"}},
		{"claims", "{resourceClaims: [{name: a}, {name: a}, {name: B}]}", []string{"spec.resourceClaims[1].name: Duplicate", "spec.resourceClaims[2].name: Invalid"}},
		{"tolerations", "{tolerations: [{operator: Exists}, {key: a, value: b}, {}, {key: a, operator: Exists, value: b}, {key: 'a b', operator: Odd, effect: E}, {key: a, tolerationSeconds: 1}]}",
			[]string{"spec.tolerations[2].operator: Invalid", `spec.tolerations[3].value: Invalid value: "b"`, "spec.tolerations[4].key: Invalid",
				"spec.tolerations[4].operator: Unsupported", "spec.tolerations[4].effect: Unsupported", "spec.tolerations[5].effect: Invalid"}},
		{"security", `{securityContext: {runAsUser: -1, runAsGroup: -1, fsGroup: -1, supplementalGroups: [-1], fsGroupChangePolicy: A,
			sysctls: [{name: ''}, {name: ../x}, {name: a}, {name: a}], seccompProfile: {type: Localhost}, appArmorProfile: {type: Unconfined, localhostProfile: a}}}`,
			[]string{"spec.securityContext.runAsUser: Invalid value: -1", "spec.securityContext.runAsGroup: Invalid", "spec.securityContext.fsGroup: Invalid",
				"spec.securityContext.supplementalGroups[0]: Invalid", "spec.securityContext.fsGroupChangePolicy: Unsupported",
				"spec.securityContext.sysctls[0].name: Required", "spec.securityContext.sysctls[1].name: Invalid", "spec.securityContext.sysctls[3].name: Duplicate",
				"spec.securityContext.seccompProfile.localhostProfile: Required", "spec.securityContext.appArmorProfile.localhostProfile: Forbidden"}},
		{"sysctls", `{securityContext: {sysctls: [{name: net.core.somaxconn}, {name: net/ipv4/conf/eth0.1/rp_filter}, {name: a}, {name: kernel.shm_rmid-forced2},
			{name: kernel..x}, {name: .x}, {name: x.}, {name: /x}, {name: X}, {name: a b}, {name: a=b}, {name: _a}, {name: a-}, {name: "a\n"}, {name: ` +
			strings.Repeat("a", 253) + `}, {name: ` + strings.Repeat("b", 254) + `}]}}`, sysctlsInvalid(4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 15)},
		{"overhead", "{overhead: {cpu: -1}}", []string{`spec.overhead[cpu]: Invalid value: "-1": must be greater than or equal to 0`}},
		{"pod-level resources", "{resources: {limits: {cpu: 1, example.com/gpu: 1}, requests: {cpu: 2}}, containers: [{name: a, image: i, resources: {requests: {cpu: 3}}}]}",
			[]string{`spec.resources.requests[cpu]: Invalid value: "2": must be less than or equal to cpu limit of 1`,
				`spec.resources.limits[example.com/gpu]: Unsupported value: "example.com/gpu"`,
				"spec.resources.requests[cpu]: Invalid value: \"2\": must be greater than or equal to aggregate container requests of 3"}},
	})
}

func sysctlsInvalid(indices ...int) []string {
	var all []string
	for _, i := range indices {
		all = append(all, fmt.Sprintf("spec.securityContext.sysctls[%d].name: Invalid", i))
	}
	return all
}

// TestTooManyContainers expects a single error for a pod with more than 1,000 containers, at no
// more cost than reading the text.
func TestTooManyContainers(t *testing.T) {
	manifestOf := func(containers, inits int) []byte {
		list := func(n int) string { return strings.Repeat("{name: a, image: b},", n) }
		return []byte("{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [" + list(containers) +
			"], initContainers: [" + list(inits) + "]}}")
	}
	d := &manifest.Decoder{NodeName: "n"}
	_, err := d.Pod(manifestOf(500, 500), origin)
	require.ErrorContains(t, err, "Duplicate")
	for _, data := range [][]byte{manifestOf(24_000, 0), manifestOf(500, 501)} {
		_, err = d.Pod(data, origin)
		require.ErrorContains(t, err, "at most 1000 containers")
		require.NotContains(t, err.Error(), "Duplicate")
	}
	bytesPer := func(n int) float64 {
		data := manifestOf(n, 0)
		var before, after goruntime.MemStats
		goruntime.ReadMemStats(&before)
		_, err := d.Pod(data, origin)
		goruntime.ReadMemStats(&after)
		require.Error(t, err)
		return float64(after.TotalAlloc-before.TotalAlloc) / float64(n)
	}
	few, many := bytesPer(6_000), bytesPer(24_000)
	require.Less(t, many, 1.5*few, "the cost grows with the number of containers")
	require.Less(t, many, 3_500.0, "bytes a container, most of them the parser's")
}

func TestValidateMeta(t *testing.T) {
	tests := []struct {
		name string
		edit func(*v1.Pod)
		want []string
	}{
		{"name", func(p *v1.Pod) { p.Name = "A_b" }, []string{`metadata.name: Invalid value: "A_b"`}},
		{"parent folder in name", func(p *v1.Pod) { p.Name = "../../etc-node" }, []string{`metadata.name: Invalid value: "../../etc-node"`}},
		{"long name", func(p *v1.Pod) { p.Name = strings.Repeat("a", 254) },
			[]string{`metadata.name: Invalid value: "` + strings.Repeat("a", 64) + `…": must be no more than 253`}},
		{"namespace", func(p *v1.Pod) { p.Namespace = "../x" }, []string{`metadata.namespace: Invalid value: "../x"`}},
		{"uid", func(p *v1.Pod) { p.UID = "a/b" }, []string{`metadata.uid: Invalid value: "a/b"`}},
		{"labels", func(p *v1.Pod) { p.Labels = map[string]string{"a b": "c", "d": "e f"} },
			[]string{`metadata.labels[a b]: Invalid value: "a b"`, `metadata.labels[d]: Invalid value: "e f"`}},
		{"annotation key", func(p *v1.Pod) { p.Annotations = map[string]string{"a b": "hush"} }, []string{"metadata.annotations[a b]: Invalid"}},
		{"annotation size", func(p *v1.Pod) { p.Annotations = map[string]string{"a": strings.Repeat("x", 256<<10)} },
			[]string{"metadata.annotations: Too long: may not be more than 262144 bytes"}},
		{"finalizer", func(p *v1.Pod) { p.Finalizers = []string{"a b"} }, []string{"metadata.finalizers[0]: Invalid"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			pod := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "a", Image: "i"}}}}
			pod.Name, pod.Namespace = "a", "b"
			manifest.SetDefaults(pod)
			require.Empty(t, manifest.Validate(pod))
			tt.edit(pod)
			errs := manifest.Validate(pod)
			require.Len(t, errs, len(tt.want))
			for i, err := range errs {
				assert.True(t, strings.HasPrefix(err.Error(), tt.want[i]), err.Error())
				assert.NotContains(t, err.Error(), "hush")
			}
		})
	}
}

func TestValidateVolumes(t *testing.T) {
	volume := func(source string) string { return "{volumes: [{name: v, " + source + "}]}" }
	check(t, []rule{
		{"names", "{volumes: [{name: a}, {name: a}, {name: ''}, {name: ../b}]}", []string{
			`spec.volumes[1].name: Duplicate value: "a"`, "spec.volumes[2].name: Required value", `spec.volumes[3].name: Invalid value: "../b"`}},
		{"two types", volume("emptyDir: {}, hostPath: {path: /a}"), []string{"spec.volumes[0]: Forbidden: may not specify more than one volume type"}},
		{"host path", volume("hostPath: {path: '', type: Odd}"), []string{"spec.volumes[0].hostPath.path: Required", "spec.volumes[0].hostPath.type: Unsupported"}},
		{"host path up", volume("hostPath: {path: /a/../b}"), []string{`spec.volumes[0].hostPath.path: Invalid value: "/a/../b": must not contain '..'`}},
		{"host path with dots", volume("hostPath: {path: /a/..b/c...}"), nil},
		{"empty dir", volume("emptyDir: {sizeLimit: -1}"), []string{"spec.volumes[0].emptyDir.sizeLimit: Invalid"}},
		{"secret", volume("secret: {defaultMode: 01000, items: [{path: ../a}]}"), []string{"spec.volumes[0].secret.secretName: Required",
			"spec.volumes[0].secret.defaultMode: Invalid value: 512", "spec.volumes[0].secret.items[0].key: Required", "spec.volumes[0].secret.items[0].path: Invalid"}},
		{"config map", volume("configMap: {name: A, items: [{key: k, path: /a, mode: -1}]}"), []string{"spec.volumes[0].configMap.name: Invalid",
			"spec.volumes[0].configMap.items[0].path: Invalid value: \"/a\": must be a relative path", "spec.volumes[0].configMap.items[0].mode: Invalid"}},
		{"downward API", volume("downwardAPI: {items: [{path: ..a}, {path: b, fieldRef: {fieldPath: spec.nodeName}}, {path: c, resourceFieldRef: {resource: limits.cpu}}]}"),
			[]string{"spec.volumes[0].downwardAPI.items[0].path: Invalid", "spec.volumes[0].downwardAPI.items[0]: Required",
				"spec.volumes[0].downwardAPI.items[1].fieldRef.fieldPath: Unsupported", "spec.volumes[0].downwardAPI.items[2].resourceFieldRef.containerName: Required"}},
		{"projected", volume("projected: {sources: [{}, {secret: {name: a}, configMap: {name: B}}, {serviceAccountToken: {path: ''}}, {clusterTrustBundle: {path: ../a}}, {podCertificate: {keyPath: /k}}]}"),
			[]string{"spec.volumes[0].projected.sources[0]: Required", "spec.volumes[0].projected.sources[1]: Forbidden",
				"spec.volumes[0].projected.sources[1].configMap.name: Invalid", "spec.volumes[0].projected.sources[2].serviceAccountToken.path: Required",
				"spec.volumes[0].projected.sources[3].clusterTrustBundle.path: Invalid", "spec.volumes[0].projected.sources[4].podCertificate.keyPath: Invalid"}},
		{"image", volume("image: {pullPolicy: Odd}"), []string{"spec.volumes[0].image.reference: Required", "spec.volumes[0].image.pullPolicy: Unsupported"}},
		{"nfs", volume("nfs: {path: a}"), []string{"spec.volumes[0].nfs.server: Required", "spec.volumes[0].nfs.path: Invalid"}},
		{"git", volume("gitRepo: {directory: ../a}"), []string{"spec.volumes[0].gitRepo.repository: Required", "spec.volumes[0].gitRepo.directory: Invalid"}},
		{"csi", volume("csi: {driver: ''}"), []string{"spec.volumes[0].csi.driver: Invalid"}},
		{"claim", volume("persistentVolumeClaim: {claimName: ''}"), []string{"spec.volumes[0].persistentVolumeClaim.claimName: Required"}},
	})
}
