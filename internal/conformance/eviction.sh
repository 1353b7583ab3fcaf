# SPDX-License-Identifier: Apache-2.0
#
# Pods on a node whose disk becomes full, twice. The folder of the node, which
# holds this folder, too, is a file system of 400 MiB, of which 30 % must be free.
# The images are on another file system. A line "# step: NAME" begins a step, as in
# session.sh.

# patiently runs a command again until it succeeds, without its output.
patiently() {
	local end=$((SECONDS + 200))
	while ((SECONDS < end)); do "$@" >/dev/null 2>&1 && return; sleep 1; done
	echo "no success in 200 s: $*"
}

# measured succeeds when the node has measured the data of all four pods: their
# volumes, the pods as a whole, and the file system of the node.
measured() {
	(($(command kubectl get --raw /api/v1/nodes/conformance/proxy/stats/summary | grep -oE '"usedBytes": ?[0-9]+' | awk -F: '$2 >= 30 * 1048576' | wc -l) >= 9))
}

# fate prints how the pods are, after the time in which another one could be evicted.
fate() {
	sleep 25
	kubectl get pods -o custom-columns=NAME:.metadata.name,PHASE:.status.phase,REASON:.status.reason
}

# step: pods
kubectl apply -f - <<END
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: important}
value: 1000
END
for pod in modest:60 greedy:60 small:30 important:80; do
	kubectl apply -f - <<-END
	apiVersion: v1
	kind: Pod
	metadata: {name: ${pod%:*}}
	spec:
	  terminationGracePeriodSeconds: 0
	  $([ ${pod%:*} != important ] || echo 'priorityClassName: important')
	  containers:
	  - name: main
	    image: localhost/busybox:1
	    command: [sh, -c, "dd if=/dev/zero of=/data/file bs=1M count=${pod#*:} 2>/dev/null; exec sleep 100000"]
	    resources: {requests: {ephemeral-storage: $([ ${pod%:*} = modest ] && echo 100Mi || echo 0)}}
	    volumeMounts: [{name: data, mountPath: /data}]
	  volumes: [{name: data, emptyDir: {}}]
	END
done
kubectl wait pod/modest pod/greedy pod/small pod/important --for=condition=Ready --timeout=90s
patiently measured
kubectl get node conformance -o 'jsonpath={.status.conditions[?(@.type=="DiskPressure")].reason}{"\n"}'

# step: the disk is full
head -c 80M /dev/zero >ballast
kubectl wait pod/greedy --for=jsonpath={.status.phase}=Failed --timeout=120s
fate
kubectl get pod greedy -o 'jsonpath={.status.message}{"\n"}{range .status.conditions[?(@.type=="DisruptionTarget")]}{.status} {.reason} {.message}{"\n"}{end}' | sed -E 's/[0-9]+(Ki|Mi)?\b/N/g'
kubectl get node conformance -o 'jsonpath={.status.conditions[?(@.type=="DiskPressure")].reason}{"\n"}'

# step: a new pod
kubectl apply -f - <<END
apiVersion: v1
kind: Pod
metadata: {name: late}
spec:
  nodeName: conformance
  containers: [{name: main, image: "localhost/busybox:1"}]
END
kubectl wait pod/late --for=jsonpath={.status.phase}=Failed --timeout=60s
kubectl get pod late -o 'jsonpath={.status.reason} {.status.message}{"\n"}'

# step: the disk is full again
head -c 40M /dev/zero >more
kubectl wait pod/small --for=jsonpath={.status.phase}=Failed --timeout=120s
fate

# step: events
kubectl get events -o custom-columns=TYPE:.type,FROM:.source.component,REASON:.reason,OBJECT:.involvedObject.name,MESSAGE:.message --no-headers | grep -E ' (Evicted|EvictionThresholdMet|NodeHas\w*DiskPressure|ExceededGracePeriod) ' | sed -E 's/[0-9]+(Ki|Mi)?\b/N/g; s/ +/ /g' | sort -u
