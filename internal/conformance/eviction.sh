# SPDX-License-Identifier: Apache-2.0
#
# Pods on a node that runs out of memory, of disk, of inodes and of process IDs. The
# node takes evictionHard and sizes from pressure.go. In each case four pods take the
# resource, and the most important one takes more, twice: two of the others are
# evicted, one after the other. The pod "modest" has a request for what it takes, of
# memory and of disk. On cgroup version 1 the kubelet has no numbers of processes, so
# the priorities of pods decide about process IDs. The images are on another file
# system. A line "# step: NAME" begins a step, as in session.sh.

# patiently runs a command again until it succeeds, without its output.
patiently() {
	local end=$((SECONDS + 200))
	while ((SECONDS < end)); do "$@" >/dev/null 2>&1 && return; sleep 1; done
	echo "no success in 200 s: $*"
}

# measured succeeds when the summary of the node has a number of at least $2 in the
# field $1 of all four pods.
measured() {
	local pods
	pods=$(command kubectl get --raw /api/v1/nodes/conformance/proxy/stats/summary | tr -d ' \n' | sed 's/"podRef"/\n/g' |
		awk -v field="\"$1\":" -v least="$2" 'NR > 1 { n = split($0, parts, field); for (i = 2; i <= n; i++) if (parts[i] + 0 >= least) { print; next } }' | wc -l)
	((pods == 4))
}

# reason prints the reason of a condition of the node.
reason() {
	kubectl get node conformance -o "jsonpath={.status.conditions[?(@.type==\"$1\")].reason}{\"\n\"}"
}

# pods starts the four pods, which run the function use: $1 is its body, $2 its four
# arguments, and $3 the request of the pod modest. It waits for measured "$4" "$5".
pods() {
	local amounts=($2) classes=(${classes:-none none none important}) pod
	for pod in modest greedy small important; do
		kubectl apply -f - <<-END
		apiVersion: v1
		kind: Pod
		metadata: {name: $pod}
		spec:
		  terminationGracePeriodSeconds: 0
		  $([ ${classes[0]} = none ] || echo "priorityClassName: ${classes[0]}")
		  containers:
		  - name: main
		    image: localhost/busybox:1
		    command:
		    - sh
		    - -c
		    - |
		      use() {
		        $1
		      }
		      use ${amounts[0]}
		      until [ -e /tmp/end ]; do [ ! -e /tmp/more ] || { use \$(cat /tmp/more); rm /tmp/more; }; sleep 1; done
		    resources: {requests: {$([ $pod != modest ] || echo "$3")}}
		    volumeMounts: [{name: data, mountPath: /data}]
		  volumes: [{name: data, emptyDir: {}}]
		END
		amounts=("${amounts[@]:1}") classes=("${classes[@]:1}")
	done
	kubectl wait pod/modest pod/greedy pod/small pod/important --for=condition=Ready --timeout=120s
	[ ! "$4" ] || patiently measured "$4" "$5"
}

# starve lets the important pod take $2 more, until the pod $1 is evicted, and prints
# all pods after the time in which another one could be.
starve() {
	kubectl exec important -- sh -c "echo $2 >/tmp/more.new; mv /tmp/more.new /tmp/more"
	kubectl wait "pod/$1" --for=jsonpath={.status.phase}=Failed --timeout=120s
	sleep 15
	kubectl get pods -o custom-columns=NAME:.metadata.name,PHASE:.status.phase,REASON:.status.reason
}

# told prints what the status of the evicted pod $1 says.
told() {
	kubectl get pod "$1" -o 'jsonpath={.status.message}{"\n"}{range .status.conditions[?(@.type=="DisruptionTarget")]}{.status} {.reason} {.message}{"\n"}{end}' | sed -E 's/[0-9]+(Ki|Mi)?\b/N/g'
}

# late starts a pod while the node has the condition $1.
late() {
	kubectl wait node/conformance --for="condition=$1" --timeout=60s
	kubectl apply -f - <<-END
	apiVersion: v1
	kind: Pod
	metadata: {name: late}
	spec:
	  nodeName: conformance
	  containers: [{name: main, image: "localhost/busybox:1"}]
	END
	kubectl wait pod/late --for=jsonpath={.status.phase}=Failed --timeout=60s
	kubectl get pod late -o 'jsonpath={.status.reason} {.status.message}{"\n"}'
}

# over removes the pods, and waits until the node has the condition $1 no more.
over() {
	reason "$1"
	kubectl delete pod --all --now
	kubectl wait node/conformance --for="condition=$1=False" --timeout=120s
	reason "$1"
}

# step: the cluster
patiently kubectl get serviceaccount default
for class in important:1000 low:-10 lowest:-20; do
	kubectl apply -f - <<-END
	apiVersion: scheduling.k8s.io/v1
	kind: PriorityClass
	metadata: {name: ${class%:*}}
	value: ${class#*:}
	END
done

# step: memory, pods
pods 'dd if=/dev/zero bs=$1M count=1 2>/dev/null | sleep 100000 &' '200 200 100 100' 'memory: 250Mi' workingSetBytes 95000000

# step: memory, the first eviction
starve greedy 200
told greedy

# step: memory, a new pod
late MemoryPressure

# step: memory, the second eviction
starve small 180
over MemoryPressure

# step: disk, pods
pods 'dd if=/dev/zero of=$(mktemp /data/XXXXXX) bs=1M count=$1 2>/dev/null' '60 60 30 80' 'ephemeral-storage: 100Mi' usedBytes 30000000

# step: disk, the first eviction
starve greedy 80
told greedy

# step: disk, a new pod
late DiskPressure

# step: disk, the second eviction
starve small 40
over DiskPressure

# step: inodes, pods
pods 'cd $(mktemp -d /data/XXXXXX); seq $1 | xargs touch' '1000 4000 2000 1500' '' inodesUsed 1000

# step: inodes, the first eviction
starve greedy 3000
told greedy

# step: inodes, the second eviction
starve small 3000
over DiskPressure

# step: process IDs, pods
classes='none lowest low important' pods 'i=0; while [ $i -lt $1 ]; do sleep 100000 & i=$((i + 1)); done' '200 1200 800 200' '' ''

# step: process IDs, the first eviction
starve greedy 1000
told greedy

# step: process IDs, a new pod
late PIDPressure

# step: process IDs, the second eviction
starve small 1100
over PIDPressure

# step: events
kubectl get events -o custom-columns=TYPE:.type,FROM:.source.component,REASON:.reason,OBJECT:.involvedObject.name,MESSAGE:.message --no-headers | grep -E ' (Evicted|EvictionThresholdMet|NodeHas\w*Pressure|NodeHas\w*PID|NodeHasInsufficientMemory|ExceededGracePeriod) ' | sed -E 's/[0-9]+(Ki|Mi)?\b/N/g; s/ +/ /g' | sort -u
