// SPDX-License-Identifier: Apache-2.0

package podspec

// Values of podField.by in addition to package names.
const (
	byBackend = ""        // the backend alone
	byCluster = "cluster" // scheduler, controllers and API server; not for a node
	byNobody  = "nobody"  // unsupported, or not for Linux
)

// podField describes the support of some fields of a pod, with the tests.
type podField struct {
	// path is below spec, with {a,b} for several fields, * for one type as a
	// whole. containers[] stands for initContainers[] and ephemeralContainers[]
	// as well, probe and hook for each of their kinds.
	path string
	// base and with are a spec in YAML, without and with the fields; c is merged
	// into the first container, m into its first volumeMount.
	base, with string
	by         string // a package below the root, or one of the words above
	idle       string // backends on which by has nothing to do
	refuse     string // backends on which the agent refuses a pod that asks for it
	says       string // text for all backends, in place of the result
	cri        string // of CRI
	process    string // of the process backend
	seen       string // tests, as in "runtime/cri TestUser"
	note       string // for the reader
}

// containerFields are those of all kinds of containers.
var containerFields = []podField{
	{path: "containers[].name", with: "c: {name: other}", seen: "runtime TestContainerSpecOfEveryGroup"},
	{path: "containers[].image", with: "c: {image: 'localhost/other:1'}", seen: "runtime/cri TestImages", note: "the process backend runs no image; it reports the name"},
	{path: "containers[].{command,args}[]", with: "c: {command: [/bin/other], args: [x]}", seen: "internal/expansion TestExpand, runtime/process TestComposePaths",
		note: "process: command is required, because there is no image with a default"},
	{path: "containers[].workingDir", with: "c: {workingDir: /tmp}", seen: "runtime/process TestComposePaths, runtime/cri TestContainerConfig"},
	{path: "containers[].ports[].{name,containerPort,protocol}", with: "c: {ports: [{name: web, containerPort: 80, protocol: UDP}]}",
		by: "prober", seen: "prober/handlers TestPorts, runtime/cri TestPortMappings", note: "named ports of probes and hooks; CRI's port mappings"},
	{path: "containers[].ports[].hostPort", base: "c: {ports: [{containerPort: 80}]}", with: "c: {ports: [{containerPort: 80, hostPort: 8080}]}",
		seen: "runtime/cri TestPortMappings, examples/nodeagent/node/admission TestCheckPorts", note: "process: must equal the containerPort; a port of another pod is refused"},
	{path: "containers[].ports[].hostIP", base: "c: {ports: [{containerPort: 80, hostPort: 80}]}",
		with: "c: {ports: [{containerPort: 80, hostPort: 80, hostIP: 127.0.0.1}]}", seen: "runtime/cri TestPortMappings", note: "process: must be empty or the address of all interfaces"},
	{path: "containers[].env[].{name,value}", with: "c: {env: [{name: A, value: b}]}", seen: "runtime TestEnvironment"},
	{path: "containers[].env[].valueFrom.fieldRef.{apiVersion,fieldPath}",
		with: "c: {env: [{name: A, valueFrom: {fieldRef: {apiVersion: v1, fieldPath: metadata.name}}}]}", seen: "runtime TestFieldRef"},
	{path: "containers[].env[].valueFrom.resourceFieldRef.{containerName,resource,divisor}",
		with: "c: {env: [{name: A, valueFrom: {resourceFieldRef: {containerName: c, resource: requests.cpu, divisor: 1m}}}]}", seen: "runtime TestResourceFieldRef"},
	{path: "containers[].env[].valueFrom.{configMapKeyRef,secretKeyRef}.{name,key,optional}",
		with: "c: {env: [{name: A, valueFrom: {configMapKeyRef: {name: config, key: k}}}, {name: B, valueFrom: {secretKeyRef: {name: secret, key: k}}}]}",
		seen: "runtime TestEnvironment, examples/nodeagent TestObjectsFollowTheirFolder"},
	{path: "containers[].env[].valueFrom.fileKeyRef.{volumeName,path,key,optional}",
		with: "c: {env: [{name: A, valueFrom: {fileKeyRef: {volumeName: v, path: f, key: k}}}]}",
		by:   byNobody, seen: "runtime TestCheckPodAsksEveryPart"},
	{path: "containers[].envFrom[].{prefix,configMapRef.name,configMapRef.optional,secretRef.name,secretRef.optional}",
		with: "c: {envFrom: [{prefix: P_, configMapRef: {name: config}}, {secretRef: {name: secret}}]}", seen: "runtime TestEnvironment"},
	{path: "containers[].resources.requests", with: "c: {resources: {requests: {cpu: 250m}}}", seen: "runtime/cri TestContainerResources, examples/nodeagent/node/admission TestCheckResources",
		note: "an agent with known node resources refuses a pod that does not fit"},
	{path: "containers[].resources.limits", with: "c: {resources: {limits: {cpu: 250m, memory: 64Mi}}}", seen: "runtime/cri TestContainerResources, runtime/process TestMemoryLimitHolds", note: "process: yes for cpu and memory with --cgroup-root"},
	{path: "containers[].resources.claims[].{name,request}", with: "c: {resources: {claims: [{name: gpu, request: r}]}}", seen: "runtime/cri TestRefusedFields"},
	{path: "containers[].resizePolicy[].{resourceName,restartPolicy}", with: "c: {resizePolicy: [{resourceName: cpu, restartPolicy: RestartContainer}]}",
		by: "runtime", idle: "process", seen: "runtime TestResizeThatWantsARestart, examples/nodeagent/nodetest TestResizeInPlaceIsToldInTheStatus", note: "process: limits of cpu and memory, with --cgroup-root"},
	{path: "containers[].restartPolicy", with: "c: {restartPolicy: Never}", by: "runtime", seen: "runtime TestShouldRestart, runtime TestPlanSidecar"},
	{path: "containers[].restartPolicyRules[].{action,exitCodes.operator,exitCodes.values[]}",
		with: "c: {restartPolicy: Never, restartPolicyRules: [{action: Restart, exitCodes: {operator: In, values: [42]}}]}",
		by:   "runtime", seen: "runtime TestShouldRestart, runtime TestPlanRestartAll"},
	{path: "containers[].volumeMounts[].{name,mountPath}", with: "m: {name: e, mountPath: /data}", seen: "runtime/process TestMountsAppearInTheWorkingFolder, runtime/cri TestMounts",
		note: "process: as a link below $KEELSON_ROOT; a mount at / or inside another is refused"},
	{path: "containers[].volumeMounts[].readOnly", base: "m: {name: e, mountPath: /data}", with: "m: {name: e, mountPath: /data, readOnly: true}",
		seen: "runtime/cri TestMounts", note: "process: honoured with readOnlyRootFilesystem: true; without, ignored for configMap, secret, projected and downwardAPI, and refused for others"},
	{path: "containers[].volumeMounts[].recursiveReadOnly", base: "m: {name: e, mountPath: /data, readOnly: true}",
		with: "m: {name: e, mountPath: /data, readOnly: true, recursiveReadOnly: Enabled}", seen: "runtime/cri TestRecursiveReadOnly"},
	{path: "containers[].volumeMounts[].{subPath,subPathExpr}", base: "m: {name: e, mountPath: /data}", with: "m: {name: e, mountPath: /data, subPath: part}",
		by: "volumemanager", seen: "volumemanager/plugins/subpath TestPrepareAndClean, runtime TestSubPaths"},
	{path: "containers[].volumeMounts[].mountPropagation", base: "m: {name: e, mountPath: /data}",
		with: "m: {name: e, mountPath: /data, mountPropagation: HostToContainer}", seen: "runtime/cri TestMountPropagation, runtime/process TestMountPropagation", note: "process: HostToContainer with --confine"},
	{path: "containers[].volumeMounts[].bindMountOptions[]", base: "m: {name: e, mountPath: /data}",
		with: "m: {name: e, mountPath: /data, bindMountOptions: [nosuid]}", seen: "runtime/cri TestFieldsWithoutAWordInTheCRIAreRefused", note: "the CRI has no field for it yet"},
	{path: "containers[].volumeDevices[].{name,devicePath}", with: "c: {volumeDevices: [{name: d, devicePath: /dev/xvda}]}",
		seen: "runtime/cri TestRefusedFields, runtime/process TestRefusalListsEverything"},
	{path: "containers[].terminationMessagePath", with: "c: {terminationMessagePath: /tmp/message}", seen: "runtime/process TestTerminationMessage, runtime/cri TestFilesOfAContainer"},
	{path: "containers[].terminationMessagePolicy", with: "c: {terminationMessagePolicy: FallbackToLogsOnError}", by: "runtime/cri", idle: "fake",
		seen: "runtime/process TestTerminationMessage, runtime/cri TestMessageFromTheLog"},
	{path: "containers[].imagePullPolicy", with: "c: {imagePullPolicy: Always}", by: "runtime", idle: "process fake", seen: "runtime TestPullPolicies", note: "process and fake have no images to pull"},
	{path: "containers[].stdin", with: "c: {stdin: true}", seen: "runtime/cri TestAttachStreams"},
	{path: "containers[].stdinOnce", base: "c: {stdin: true}", with: "c: {stdin: true, stdinOnce: true}", seen: "runtime/cri TestContainerConfig", note: "process refuses stdin"},
	{path: "containers[].tty", with: "c: {tty: true}", seen: "runtime/cri TestExecStreamsOfATerminal"},
	{path: "containers[].targetContainerName", with: "ephemeralContainers: [{name: debug, image: 'localhost/d:1', command: [/d], targetContainerName: c}]",
		by: "runtime/cri", idle: "process fake", process: always, seen: "runtime/cri TestNamespaces", note: "process: every container sees the host's processes; ephemeral containers only"},
}

// probeFields are those of probes and lifecycle hooks.
var probeFields = []podField{
	{path: "containers[].probe.exec.command[]", with: "c: {livenessProbe: {exec: {command: [/p]}}}", by: "prober", seen: "prober/handlers TestExec, examples/nodeagent TestExecProbes"},
	{path: "containers[].probe.httpGet.{path,port,host,scheme,httpHeaders[].name,httpHeaders[].value}",
		with: "c: {livenessProbe: {httpGet: {path: /p, port: 80, host: h, scheme: HTTPS, httpHeaders: [{name: A, value: b}]}}}",
		by:   "prober", seen: "prober/handlers TestHTTPRequest, prober/handlers TestHTTPS"},
	{path: "containers[].probe.httpGet.protocol", base: "c: {livenessProbe: {httpGet: {port: 80}}}", with: "c: {livenessProbe: {httpGet: {port: 80, protocol: HTTP2}}}",
		by: "prober", seen: "prober/handlers TestH2C"},
	{path: "containers[].probe.tcpSocket.{port,host}", with: "c: {livenessProbe: {tcpSocket: {port: 80, host: h}}}", by: "prober", seen: "prober/handlers TestTCP"},
	{path: "containers[].probe.grpc.{port,service}", with: "c: {livenessProbe: {grpc: {port: 80, service: s}}}", by: "prober", seen: "prober/handlers TestGRPC"},
	{path: "containers[].probe.grpc.mode", base: "c: {livenessProbe: {grpc: {port: 80}}}", with: "c: {livenessProbe: {grpc: {port: 80, mode: TLS}}}",
		by: "prober", seen: "prober/handlers TestGRPCOverTLS"},
	{path: "containers[].probe.{initialDelaySeconds,timeoutSeconds,periodSeconds,successThreshold,failureThreshold}",
		with: "c: {readinessProbe: {exec: {command: [/p]}, initialDelaySeconds: 1, timeoutSeconds: 2, periodSeconds: 3, successThreshold: 4, failureThreshold: 5}}",
		by:   "prober", seen: "prober TestFirstDue, prober TestAgainstNaive"},
	{path: "containers[].probe.terminationGracePeriodSeconds", with: "c: {livenessProbe: {exec: {command: [/p]}, terminationGracePeriodSeconds: 3}}",
		by: "runtime", seen: "runtime TestGracePeriod"},
	{path: "containers[].lifecycle.hook.exec.command[]", with: "c: {lifecycle: {postStart: {exec: {command: [/p]}}}}", by: "runtime",
		seen: "runtime TestAFailedPostStartHookKillsTheContainer"},
	{path: "containers[].lifecycle.hook.httpGet.{path,port,host,scheme,httpHeaders[].name,httpHeaders[].value}",
		with: "c: {lifecycle: {postStart: {httpGet: {path: /p, port: 80, host: h, scheme: HTTPS, httpHeaders: [{name: A, value: b}]}}}}",
		by:   "runtime", seen: "runtime TestHTTPHookRequest"},
	{path: "containers[].lifecycle.hook.httpGet.protocol", base: "c: {lifecycle: {postStart: {httpGet: {port: 80}}}}",
		with: "c: {lifecycle: {postStart: {httpGet: {port: 80, protocol: HTTP2}}}}", by: byNobody,
		seen: "runtime TestCheckPodAsksEveryPart", note: "an API field for probes; a hook uses HTTP/1.1, so HTTP1 is accepted"},
	{path: "containers[].lifecycle.hook.tcpSocket.{port,host}", with: "c: {lifecycle: {postStart: {tcpSocket: {port: 80}}}}", by: byNobody,
		seen: "runtime TestCheckPodAsksEveryPart", note: "unsupported according to the API; the kubelet fails each time"},
	{path: "containers[].lifecycle.hook.sleep.seconds", with: "c: {lifecycle: {preStop: {sleep: {seconds: 3}}}}", by: "runtime", seen: "runtime TestSleepHookEndsWithItsContext"},
	{path: "containers[].lifecycle.stopSignal", base: "os: {name: linux}", with: "{os: {name: linux}, c: {lifecycle: {stopSignal: SIGUSR1}}}",
		seen: "runtime/process TestStopSignal, runtime/cri TestContainerConfig", note: "needs a CRI runtime with support (CRI of Kubernetes 1.33)"},
}
