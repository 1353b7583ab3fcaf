// SPDX-License-Identifier: Apache-2.0

package manifest_test

import (
	"strings"
	"testing"
)

func TestValidateContainers(t *testing.T) {
	check(t, []rule{
		{"name and image", "{containers: [{}]}", []string{"spec.containers[0].name: Required value", "spec.containers[0].image: Required value"}},
		{"bad name and image", "{containers: [{name: ../a, image: ' i'}]}", []string{
			`spec.containers[0].name: Invalid value: "../a"`, `spec.containers[0].image: Invalid value: " i": must not have leading or trailing whitespace`}},
		{"names across groups", "{initContainers: [{name: a, image: i}], containers: [{name: a, image: i}, {name: b, image: i}, {name: b, image: i}]}",
			[]string{`spec.containers[0].name: Duplicate value: "a"`, `spec.containers[2].name: Duplicate value: "b"`}},
		{"enums", container("imagePullPolicy: Odd, terminationMessagePolicy: Odd"), []string{
			"spec.containers[0].imagePullPolicy: Unsupported", "spec.containers[0].terminationMessagePolicy: Unsupported"}},
		{"paths", container("workingDir: /a/.., terminationMessagePath: ../../etc/x"), []string{
			"spec.containers[0].workingDir: Invalid", "spec.containers[0].terminationMessagePath: Invalid"}},
		{"control characters, reported once", `{containers: [{name: a, image: "a\0b", workingDir: "/\n"}]}`, []string{
			"spec.containers[0].image: Invalid value: must not contain control characters (byte 1)", "spec.containers[0].workingDir: Invalid"}},
		{"zero byte", container(`command: ["a\0"], args: ["\0"], env: [{name: A, value: "hush\0"}]`), []string{
			"spec.containers[0].command[0]: Invalid value: must not contain a zero byte", "spec.containers[0].args[0]: Invalid",
			"spec.containers[0].env[0].value: Invalid value: must not contain a zero byte"}},
		{"ports", container("ports: [{containerPort: 80, name: http}, {containerPort: 81, name: http}, {}, {containerPort: 70000, hostPort: -1, protocol: IP, name: Too, hostIP: x}]"),
			[]string{`spec.containers[0].ports[1].name: Duplicate value: "http"`, "spec.containers[0].ports[2].containerPort: Required",
				"spec.containers[0].ports[3].name: Invalid", "spec.containers[0].ports[3].containerPort: Invalid value: 70000",
				"spec.containers[0].ports[3].hostPort: Invalid value: -1", "spec.containers[0].ports[3].hostIP: Invalid", "spec.containers[0].ports[3].protocol: Unsupported"}},
		{"host ports", "{containers: [{name: a, image: i, ports: [{containerPort: 1, hostPort: 5}]}, {name: b, image: i, ports: [{containerPort: 2, hostPort: 5}, {containerPort: 2, hostPort: 5, protocol: UDP}]}]}",
			[]string{`spec.containers[1].ports[0].hostPort: Duplicate value: "TCP//5"`}},
		{"host ports of a sidecar", "{initContainers: [{name: i, image: i, ports: [{containerPort: 1, hostPort: 5}]}, {name: s, image: i, restartPolicy: Always, ports: [{containerPort: 1, hostPort: 5}]}], containers: [{name: a, image: i, ports: [{containerPort: 1, hostPort: 5}]}]}",
			[]string{`spec.containers[0].ports[0].hostPort: Duplicate value: "TCP//5"`}},
		{"host network", "{hostNetwork: true, containers: [{name: a, image: i, ports: [{containerPort: 1, hostPort: 5}]}]}",
			[]string{"spec.containers[0].ports[0].hostPort: Invalid value: 5: must match containerPort"}},
		{"restart policy", "{initContainers: [{name: a, image: i, restartPolicy: Odd}], containers: [{name: b, image: i, restartPolicy: OnFailure}]}",
			[]string{`spec.initContainers[0].restartPolicy: Unsupported value: "Odd"`}},
		{"rules without policy", container("restartPolicyRules: [{action: Restart, exitCodes: {operator: In, values: [1]}}]"),
			[]string{"spec.containers[0].restartPolicy: Required value"}},
		{"rules", container("restartPolicy: Never, restartPolicyRules: [{action: Odd, exitCodes: {operator: Odd, values: [1, 1]}}, {action: RestartAllContainers}]"),
			[]string{"spec.containers[0].restartPolicyRules[0].action: Unsupported", "spec.containers[0].restartPolicyRules[0].exitCodes.operator: Unsupported",
				"spec.containers[0].restartPolicyRules[0].exitCodes.values[1]: Duplicate", "spec.containers[0].restartPolicyRules[1].exitCodes: Required"}},
		{"many rules", container("restartPolicy: Never, restartPolicyRules: [" + strings.Repeat("{action: Restart, exitCodes: {operator: In}},", 21) + "]"),
			[]string{"spec.containers[0].restartPolicyRules: Too many: 21: must have at most 20 items"}},
		{"init container", "{initContainers: [{name: a, image: i, lifecycle: {}, livenessProbe: {tcpSocket: {port: 1}}, readinessProbe: {tcpSocket: {port: 1}}, startupProbe: {tcpSocket: {port: 1}}}], containers: [{name: b, image: i}]}",
			[]string{"spec.initContainers[0].livenessProbe: Forbidden", "spec.initContainers[0].readinessProbe: Forbidden",
				"spec.initContainers[0].startupProbe: Forbidden", "spec.initContainers[0].lifecycle: Forbidden"}},
		{"sidecar", "{initContainers: [{name: a, image: i, restartPolicy: Always, lifecycle: {}, livenessProbe: {tcpSocket: {port: 1}}}], containers: [{name: b, image: i}]}", nil},
		{"security", container("securityContext: {runAsUser: -1, runAsGroup: -1, procMount: Odd, privileged: true, allowPrivilegeEscalation: false, seccompProfile: {type: Localhost, localhostProfile: ../x}}"),
			[]string{"spec.containers[0].securityContext.runAsUser: Invalid", "spec.containers[0].securityContext.runAsGroup: Invalid",
				"spec.containers[0].securityContext.procMount: Unsupported", "spec.containers[0].securityContext.allowPrivilegeEscalation: Forbidden",
				"spec.containers[0].securityContext.seccompProfile.localhostProfile: Invalid"}},
	})
}

func TestValidateEnv(t *testing.T) {
	from := func(source string) string { return container("env: [{name: A, valueFrom: {" + source + "}}]") }
	const at = "spec.containers[0].env[0].valueFrom"
	check(t, []rule{
		{"names", container("env: [{name: ok.-1}, {name: ''}, {name: 'a=b'}]"), []string{"spec.containers[0].env[1].name: Required", `spec.containers[0].env[2].name: Invalid value: "a=b"`}},
		{"value and source", container("env: [{name: A, value: hush, valueFrom: {fieldRef: {fieldPath: metadata.uid}}}]"),
			[]string{at + ": Forbidden: may not be specified when value is not empty"}},
		{"no source", from(""), []string{at + ": Required value: must specify source"}},
		{"two sources", from("fieldRef: {fieldPath: metadata.uid}, secretKeyRef: {name: a, key: b}"), []string{at + ": Forbidden: may not specify more than one source"}},
		{"field", from("fieldRef: {fieldPath: spec.odd, apiVersion: v2}"), []string{at + `.fieldRef.apiVersion: Invalid`, at + `.fieldRef.fieldPath: Unsupported value: "spec.odd"`}},
		{"no field", from("fieldRef: {fieldPath: ''}"), []string{at + `.fieldRef.fieldPath: Required`}},
		{"all labels", from("fieldRef: {fieldPath: metadata.labels}"), []string{at + `.fieldRef.fieldPath: Unsupported`}},
		{"one label", from(`fieldRef: {fieldPath: "metadata.labels['a.b/c']"}`), nil},
		{"bad label", from(`fieldRef: {fieldPath: "metadata.annotations['a b']"}`), []string{at + `.fieldRef.fieldPath: Invalid value: "a b"`}},
		{"resource", from("resourceFieldRef: {resource: limits.odd, containerName: A, divisor: -1}"), []string{at + ".resourceFieldRef.resource: Unsupported",
			at + ".resourceFieldRef.containerName: Invalid", at + ".resourceFieldRef.divisor: Invalid"}},
		{"no resource", from("resourceFieldRef: {resource: ''}"), []string{at + ".resourceFieldRef.resource: Required"}},
		{"secret", from("secretKeyRef: {name: A, key: a/b}"), []string{at + ".secretKeyRef.name: Invalid", at + ".secretKeyRef.key: Invalid"}},
		{"config map", from("configMapKeyRef: {name: a}"), []string{at + ".configMapKeyRef.key: Required"}},
		{"file", from("fileKeyRef: {volumeName: v, path: ../a, key: a=b}"), []string{at + ".fileKeyRef.key: Invalid", at + ".fileKeyRef.path: Invalid", at + `.fileKeyRef.volumeName: Not found: "v"`}},
		{"no file", from("fileKeyRef: {}"), []string{at + ".fileKeyRef.key: Required", at + ".fileKeyRef.path: Required", at + ".fileKeyRef.volumeName: Required"}},
		{"env from", container("envFrom: [{}, {prefix: 'a=', configMapRef: {name: ''}, secretRef: {name: B}}]"), []string{"spec.containers[0].envFrom[0]: Required",
			"spec.containers[0].envFrom[1].prefix: Invalid", "spec.containers[0].envFrom[1]: Forbidden", "spec.containers[0].envFrom[1].configMapRef.name: Required",
			"spec.containers[0].envFrom[1].secretRef.name: Invalid"}},
	})
}

func TestValidateMounts(t *testing.T) {
	mount := func(fields string) string {
		return "{volumes: [{name: v}], containers: [{name: main, image: i, volumeMounts: [" + fields + "]}]}"
	}
	const at = "spec.containers[0].volumeMounts"
	check(t, []rule{
		{"fine", mount("{name: v, mountPath: /a, subPath: b/c}, {name: v, mountPath: 'b', subPathExpr: $(A)}"), nil},
		{"required", mount("{}"), []string{at + "[0].name: Required", at + "[0].mountPath: Required"}},
		{"unknown volume", mount("{name: w, mountPath: /a}"), []string{at + `[0].name: Not found: "w"`}},
		{"same path", mount("{name: v, mountPath: /a}, {name: v, mountPath: /a}"), []string{at + `[1].mountPath: Duplicate value: "/a"`}},
		{"paths up", mount("{name: v, mountPath: /a/../../b, subPath: ../c}, {name: v, mountPath: /c, subPathExpr: /d}"), []string{at + "[0].mountPath: Invalid",
			at + `[0].subPath: Invalid value: "../c": must not contain '..'`, at + `[1].subPathExpr: Invalid value: "/d": must be a relative path`}},
		{"two sub-paths", mount("{name: v, mountPath: /a, subPath: a, subPathExpr: b}"), []string{at + "[0].subPathExpr: Invalid"}},
		{"propagation", mount("{name: v, mountPath: /a, mountPropagation: Odd}, {name: v, mountPath: /b, mountPropagation: Bidirectional}"), []string{
			at + "[0].mountPropagation: Unsupported", at + "[1].mountPropagation: Forbidden"}},
		{"recursive read-only", mount("{name: v, mountPath: /a, recursiveReadOnly: Enabled}, {name: v, mountPath: /b, recursiveReadOnly: Odd, readOnly: true}"), []string{
			at + "[0].recursiveReadOnly: Forbidden", at + "[1].recursiveReadOnly: Unsupported"}},
		{"devices", container("volumeDevices: [{name: v, devicePath: ''}, {name: v, devicePath: ../a}]"), []string{"spec.containers[0].volumeDevices[0].name: Not found",
			"spec.containers[0].volumeDevices[0].devicePath: Required", "spec.containers[0].volumeDevices[1].name: Not found", "spec.containers[0].volumeDevices[1].devicePath: Invalid"}},
	})
}

func TestValidateProbes(t *testing.T) {
	check(t, []rule{
		{"no handler", container("livenessProbe: {}"), []string{"spec.containers[0].livenessProbe: Required value: must specify handler type"}},
		{"two handlers", container("readinessProbe: {tcpSocket: {port: 1}, grpc: {port: 1}}"), []string{"spec.containers[0].readinessProbe: Forbidden"}},
		{"numbers", container("readinessProbe: {tcpSocket: {port: 1}, initialDelaySeconds: -1, timeoutSeconds: -2, periodSeconds: -3, successThreshold: -4, failureThreshold: -5, terminationGracePeriodSeconds: 1}"),
			[]string{"spec.containers[0].readinessProbe.initialDelaySeconds: Invalid value: -1", "spec.containers[0].readinessProbe.timeoutSeconds: Invalid value: -2",
				"spec.containers[0].readinessProbe.periodSeconds: Invalid value: -3", "spec.containers[0].readinessProbe.successThreshold: Invalid value: -4",
				"spec.containers[0].readinessProbe.failureThreshold: Invalid value: -5", "spec.containers[0].readinessProbe.terminationGracePeriodSeconds: Invalid"}},
		{"threshold", container("livenessProbe: {tcpSocket: {port: 1}, successThreshold: 2, terminationGracePeriodSeconds: 0}, startupProbe: {tcpSocket: {port: 1}, successThreshold: 3}"),
			[]string{"spec.containers[0].livenessProbe.successThreshold: Invalid value: 2: must be 1", "spec.containers[0].livenessProbe.terminationGracePeriodSeconds: Invalid",
				"spec.containers[0].startupProbe.successThreshold: Invalid value: 3"}},
		{"handlers", container(`livenessProbe: {exec: {}}, readinessProbe: {httpGet: {port: 0, scheme: FTP, httpHeaders: [{name: 'a b', value: "hush\nhush"}]}}, startupProbe: {grpc: {port: 0}}`),
			[]string{"spec.containers[0].livenessProbe.exec.command: Required",
				"spec.containers[0].readinessProbe.httpGet.port: Invalid", "spec.containers[0].readinessProbe.httpGet.scheme: Unsupported",
				"spec.containers[0].readinessProbe.httpGet.httpHeaders[0].name: Invalid", "spec.containers[0].readinessProbe.httpGet.httpHeaders[0].value: Invalid value: must not contain line breaks",
				"spec.containers[0].startupProbe.grpc.port: Invalid"}},
		{"port name", container("livenessProbe: {tcpSocket: {port: not_a_port}}"), []string{"spec.containers[0].livenessProbe.tcpSocket.port: Invalid"}},
		{"hooks", container("lifecycle: {postStart: {}, preStop: {sleep: {seconds: 31}}}"), []string{"spec.containers[0].lifecycle.postStart: Required",
			"spec.containers[0].lifecycle.preStop.sleep.seconds: Invalid value: 31: must not exceed terminationGracePeriodSeconds"}},
		{"negative sleep", container("lifecycle: {preStop: {sleep: {seconds: -1}}}"), []string{"spec.containers[0].lifecycle.preStop.sleep.seconds: Invalid"}},
		{"stop signal", container("lifecycle: {stopSignal: USR1}"), []string{"spec.containers[0].lifecycle.stopSignal: Forbidden", "spec.containers[0].lifecycle.stopSignal: Invalid"}},
	})
}

func TestValidateResources(t *testing.T) {
	resources := func(fields string) string { return container("resources: {" + fields + "}") }
	const at = "spec.containers[0].resources"
	check(t, []rule{
		{"fine", resources("limits: {cpu: 1, memory: 1Gi, example.com/gpu: 2, hugepages-2Mi: 4Mi}, requests: {cpu: 100m}"), nil},
		{"above limit", resources("limits: {cpu: 1}, requests: {cpu: 1500m}"), []string{at + `.requests[cpu]: Invalid value: "1500m": must be less than or equal to cpu limit of 1`}},
		{"negative", resources("limits: {memory: -1}, requests: {memory: -1}"), []string{at + `.limits[memory]: Invalid value: "-1"`, at + ".requests[memory]: Invalid"}},
		{"names", resources("limits: {'a b': 1, apples: 1}"), []string{at + ".limits[a b]: Invalid", at + ".limits[a b]: Invalid", at + ".limits[apples]: Invalid",
			at + ".requests[a b]: Invalid", at + ".requests[a b]: Invalid", at + ".requests[apples]: Invalid"}},
		{"fractions", resources("limits: {example.com/gpu: 500m}"), []string{at + ".limits[example.com/gpu]: Invalid", at + ".requests[example.com/gpu]: Invalid"}},
		{"overcommit", resources("limits: {example.com/gpu: 2}, requests: {example.com/gpu: 1}"), []string{at + `.requests[example.com/gpu]: Invalid value: "1": must be equal to the limit`}},
		{"no limit", resources("requests: {hugepages-2Mi: 4Mi}"), []string{at + `.requests[hugepages-2Mi]: Invalid value: "4Mi": must be equal to the limit`}},
		{"claims", resources("claims: [{name: a}]"), []string{at + `.claims[0].name: Not found: "a"`}},
	})
}
