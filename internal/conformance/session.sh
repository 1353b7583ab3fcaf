# SPDX-License-Identifier: Apache-2.0
#
# A user's session with kubectl on a cluster with one node. A line "# step: NAME"
# begins a step: a script for bash, whose output and exit code are recorded.
# What stands before the first step is the head of every step.

# quietly runs a command again until it succeeds, without its output.
quietly() {
	local end=$((SECONDS + 90))
	while ((SECONDS < end)); do "$@" >/dev/null 2>&1 && return; sleep 0.2; done
	echo "no success in 90 s: $*"
}

# field waits until a field of a pod's status has a value.
field() { kubectl wait "pod/$1" "--for=jsonpath={.status$2}=$3" --timeout=180s >/dev/null; }

# terminal runs a command in a terminal, and types the lines of the first argument.
terminal() {
	local lines=$1
	shift
	{
		sleep 5
		while IFS= read -r line; do printf '%s\r' "$line"; sleep 1.5; done <<<"$lines"
		sleep 1
	} | script -qec "stty rows 40 cols 120; $*" /dev/null | tr -d '\r' | sed 's/\x1b\[[0-9]*[A-Za-z]//g'
}

# step: get nodes
quietly kubectl get lease conformance -n kube-node-lease
quietly sh -c 'kubectl get events | grep RegisteredNode'
quietly sh -c 'kubectl get node conformance -o yaml | grep node.alpha.kubernetes.io/ttl'
quietly sh -c 'kubectl get node conformance -o yaml | grep localhost/busybox'
quietly sh -c '! kubectl get node conformance -o yaml | grep taints'
kubectl get nodes -o wide

# step: get node as YAML
kubectl get node conformance -o yaml

# step: describe node
kubectl describe node conformance

# step: apply
kubectl create configmap settings --from-literal=colour=blue
kubectl create secret generic password --from-literal=key=value
kubectl apply -f - <<END
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec:
  terminationGracePeriodSeconds: 2
  initContainers:
  - {name: prepare, image: "localhost/busybox:1", command: [sh, -c, "echo prepared"]}
  - {name: helper, image: "localhost/busybox:1", restartPolicy: Always, command: [sh, -c, "trap 'exit 0' TERM; while :; do sleep 0.2; done"]}
  containers:
  - name: main
    image: localhost/busybox:1
    command: [sh, -c, "mkdir /www; echo page > /www/index.html; trap 'exit 0' TERM; echo one; echo two; httpd -p 80 -h /www; while :; do sleep 0.2; done"]
    ports: [{name: http, containerPort: 80}]
    env:
    - {name: COLOUR, valueFrom: {configMapKeyRef: {name: settings, key: colour}}}
    - {name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
    resources: {requests: {cpu: 10m, memory: 16Mi}, limits: {cpu: 500m, memory: 64Mi}}
    readinessProbe: {httpGet: {path: /, port: http}, periodSeconds: 1, timeoutSeconds: 10}
    livenessProbe: {exec: {command: ["true"]}, periodSeconds: 10, timeoutSeconds: 10}
    volumeMounts: [{name: settings, mountPath: /settings}, {name: password, mountPath: /password}, {name: scratch, mountPath: /scratch}]
  volumes:
  - {name: settings, configMap: {name: settings}}
  - {name: password, secret: {secretName: password}}
  - {name: scratch, emptyDir: {}}
---
apiVersion: v1
kind: Pod
metadata: {name: completes}
spec:
  restartPolicy: Never
  containers: [{name: main, image: "localhost/busybox:1", command: [sh, -c, "echo done; echo said > /dev/termination-log"]}]
---
apiVersion: v1
kind: Pod
metadata: {name: fails}
spec:
  restartPolicy: Never
  containers: [{name: main, image: "localhost/busybox:1", command: [sh, -c, "echo about to fail; exit 4"], terminationMessagePolicy: FallbackToLogsOnError}]
---
apiVersion: v1
kind: Pod
metadata: {name: no-image}
spec:
  terminationGracePeriodSeconds: 0
  containers: [{name: main, image: "localhost:1/missing:1"}]
---
apiVersion: v1
kind: Pod
metadata: {name: never-pulls}
spec:
  terminationGracePeriodSeconds: 0
  containers: [{name: main, image: "localhost/missing:1", imagePullPolicy: Never}]
---
apiVersion: v1
kind: Pod
metadata: {name: bad-image}
spec:
  terminationGracePeriodSeconds: 0
  containers: [{name: main, image: "Not_An_Image:1"}]
---
apiVersion: v1
kind: Pod
metadata: {name: no-config}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - name: main
    image: localhost/busybox:1
    env: [{name: COLOUR, valueFrom: {configMapKeyRef: {name: missing, key: colour}}}]
---
apiVersion: v1
kind: Pod
metadata: {name: no-volume}
spec:
  terminationGracePeriodSeconds: 0
  containers: [{name: main, image: "localhost/busybox:1", volumeMounts: [{name: settings, mountPath: /settings}]}]
  volumes: [{name: settings, configMap: {name: missing}}]
---
apiVersion: v1
kind: Pod
metadata: {name: no-command}
spec:
  restartPolicy: Never
  containers: [{name: main, image: "localhost/busybox:1", command: [/no/such/command]}]
---
apiVersion: v1
kind: Pod
metadata: {name: initialises}
spec:
  terminationGracePeriodSeconds: 0
  initContainers: [{name: prepare, image: "localhost/busybox:1", command: [sleep, "1000"]}]
  containers: [{name: main, image: "localhost/busybox:1", command: [sleep, "1000"]}]
---
apiVersion: v1
kind: Pod
metadata: {name: unready}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - name: main
    image: localhost/busybox:1
    command: [sleep, "1000"]
    readinessProbe: {tcpSocket: {port: 81}, periodSeconds: 1}
---
apiVersion: v1
kind: Pod
metadata: {name: unhealthy}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - name: main
    image: localhost/busybox:1
    command: [sh, -c, "if [ -e /kept/again ]; then sleep 1000; fi; touch /kept/again; sleep 1000"]
    livenessProbe: {exec: {command: [sh, -c, "echo ill; exit 1"]}, periodSeconds: 1, timeoutSeconds: 10, failureThreshold: 2, initialDelaySeconds: 1}
    volumeMounts: [{name: kept, mountPath: /kept}]
  volumes: [{name: kept, emptyDir: {}}]
---
apiVersion: v1
kind: Pod
metadata: {name: hooked}
spec:
  terminationGracePeriodSeconds: 5
  containers:
  - name: main
    image: localhost/busybox:1
    command: [sh, -c, "trap 'exit 0' TERM; while :; do sleep 0.2; done"]
    lifecycle: {postStart: {exec: {command: ["true"]}}, preStop: {exec: {command: ["sh", "-c", "exit 5"]}}}
---
apiVersion: v1
kind: Pod
metadata: {name: bad-hook}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 0
  containers:
  - name: main
    image: localhost/busybox:1
    command: [sleep, "1000"]
    lifecycle: {postStart: {exec: {command: ["sh", "-c", "echo hook; exit 6"]}}}
---
apiVersion: v1
kind: Pod
metadata: {name: too-large}
spec:
  nodeName: conformance
  containers: [{name: main, image: "localhost/busybox:1", resources: {requests: {cpu: "1000"}}}]
---
apiVersion: v1
kind: Pod
metadata: {name: late}
spec:
  restartPolicy: Never
  activeDeadlineSeconds: 15
  terminationGracePeriodSeconds: 0
  containers: [{name: main, image: "localhost/busybox:1", command: [sleep, "1000"]}]
---
apiVersion: v1
kind: Pod
metadata: {name: unscheduled}
spec:
  nodeSelector: {no: node}
  containers: [{name: main, image: "localhost/busybox:1"}]
---
apiVersion: v1
kind: Pod
metadata: {name: reads}
spec:
  terminationGracePeriodSeconds: 0
  containers: [{name: main, image: "localhost/busybox:1", stdin: true, command: [sh, -c, "while read -r line; do echo \"read: \$line\"; done"]}]
END
kubectl wait pod/web --for=condition=Ready --timeout=90s
kubectl wait pod/completes --for=jsonpath={.status.phase}=Succeeded --timeout=60s
kubectl wait pod/fails --for=jsonpath={.status.phase}=Failed --timeout=60s

# step: crash loop
kubectl apply -f - <<END
apiVersion: v1
kind: Pod
metadata: {name: crashes}
spec:
  terminationGracePeriodSeconds: 0
  containers: [{name: main, image: "localhost/busybox:1", command: [sh, -c, "echo run; exit 3"]}]
END
field crashes '.containerStatuses[0].restartCount' 4
field crashes '.containerStatuses[0].state.waiting.reason' CrashLoopBackOff
kubectl get pod crashes
kubectl get pod crashes -o yaml
kubectl describe pod crashes
kubectl logs crashes
kubectl logs crashes --previous

# step: a running pod
kubectl get pod web -o wide
kubectl get pod web -o yaml
kubectl describe pod web

# step: ended pods
kubectl get pod completes fails
kubectl get pod completes fails -o yaml
kubectl describe pod completes fails
kubectl logs completes
kubectl logs fails
kubectl logs completes --previous

# step: no image
field no-image '.containerStatuses[0].state.waiting.reason' ImagePullBackOff
kubectl get pod no-image
kubectl get pod no-image -o yaml
kubectl describe pod no-image
kubectl logs no-image

# step: pull policy Never
field never-pulls '.containerStatuses[0].state.waiting.reason' ErrImageNeverPull
kubectl get pod never-pulls
kubectl get pod never-pulls -o yaml
kubectl describe pod never-pulls
kubectl logs never-pulls

# step: invalid image name
field bad-image '.containerStatuses[0].state.waiting.reason' InvalidImageName
kubectl get pod bad-image
kubectl get pod bad-image -o yaml
kubectl describe pod bad-image
kubectl logs bad-image

# step: missing configuration
field no-config '.containerStatuses[0].state.waiting.reason' CreateContainerConfigError
kubectl get pod no-config
kubectl get pod no-config -o yaml
kubectl describe pod no-config
kubectl logs no-config

# step: missing volume
quietly sh -c 'kubectl get events | grep FailedMount'
kubectl get pod no-volume
kubectl get pod no-volume -o yaml
kubectl describe pod no-volume
kubectl logs no-volume

# step: missing command
field no-command .phase Failed
kubectl get pod no-command
kubectl get pod no-command -o yaml
kubectl describe pod no-command
kubectl logs no-command

# step: init container
field initialises '.initContainerStatuses[0].started' true
kubectl get pod initialises
kubectl get pod initialises -o yaml
kubectl describe pod initialises
kubectl logs initialises
kubectl logs initialises -c prepare

# step: unready
quietly sh -c 'kubectl get events | grep "Readiness probe failed"'
kubectl get pod unready
kubectl get pod unready -o yaml
kubectl describe pod unready

# step: liveness probe
kubectl wait pod/unhealthy --for=jsonpath={.status.containerStatuses[0].lastState.terminated.reason}=Error --timeout=90s
kubectl get events --field-selector involvedObject.name=unhealthy -o custom-columns=TYPE:.type,REASON:.reason,MESSAGE:.message --no-headers | sort

# step: hooks
field bad-hook .phase Failed
kubectl get pod bad-hook -o yaml
kubectl describe pod bad-hook
kubectl delete pod hooked
kubectl get events --field-selector involvedObject.name=hooked -o custom-columns=TYPE:.type,REASON:.reason,MESSAGE:.message --no-headers | sort

# step: rejected
field too-large .phase Failed
kubectl get pod too-large
kubectl get pod too-large -o yaml
kubectl describe pod too-large
kubectl logs too-large

# step: deadline
field late .phase Failed
kubectl get pod late
kubectl get pod late -o yaml
kubectl describe pod late
kubectl logs late

# step: unscheduled
kubectl logs unscheduled
kubectl exec unscheduled -- true

# step: logs
kubectl logs web
kubectl logs web --tail=1 --timestamps
kubectl logs web --since=1h --limit-bytes=5
kubectl logs web --previous
kubectl logs web -c prepare
kubectl logs web -c helper
kubectl logs web -c other
kubectl logs web --all-containers --prefix | sort
kubectl logs -l app=web --tail=1
kubectl logs missing

# step: logs -f
kubectl run counts --image=localhost/busybox:1 --restart=Never --command -- sh -c 'for i in 1 2 3; do echo $i; sleep 1; done; echo last; exit 2'
quietly kubectl logs counts
kubectl logs -f counts
kubectl wait pod/counts --for=jsonpath={.status.phase}=Failed --timeout=20s
kubectl logs -f counts --tail=1

# step: exec
kubectl exec web -- echo hello
kubectl exec web -- sh -c 'echo out; echo err >&2' 2>/dev/null
kubectl exec web -- sh -c 'exit 3'
kubectl exec web -- sh -c 'kill -9 $$'
kubectl exec web -- no-such-command
kubectl exec web -- /etc/passwd
kubectl exec web -c helper -- echo helper
kubectl exec web -c prepare -- true
kubectl exec web -c other -- true
kubectl exec web -- sh -c 'echo $COLOUR $NODE $HOME $PATH'
kubectl exec web -- sh -c 'cat /settings/colour /password/key; ls -l /scratch'
echo from stdin | kubectl exec -i web -- cat
seq 1 200000 | kubectl exec -i web -- wc -l
kubectl exec web -- seq 1 200000 | md5sum
kubectl exec no-image -- true
kubectl exec completes -- true
kubectl exec initialises -- true
kubectl exec missing -- true

# step: exec -it
terminal $'echo typed\nstty size\ntty\nexit 7' kubectl exec -it web -- sh

# step: attach
{ sleep 2; echo first; sleep 1; echo second; sleep 1; } | timeout 8 kubectl attach -i reads
quietly sh -c 'kubectl logs reads | grep second'
kubectl logs reads
kubectl attach web -c other
kubectl attach completes
kubectl attach no-image

# step: run -it
terminal $'echo typed\ntty\nexit 3' kubectl run shell -it --rm --image=localhost/busybox:1 --restart=Never -- sh
kubectl get pod shell

# step: port-forward
coproc FORWARD { exec kubectl port-forward pod/web :80 2>&1; }
read -r line <&"${FORWARD[0]}"
echo "$line"
port=${line#*127.0.0.1:}
curl -s "http://127.0.0.1:${port%% *}/"
kill "$FORWARD_PID"
wait "$FORWARD_PID"

# step: port-forward to a closed port
coproc FORWARD { exec timeout 10 kubectl port-forward pod/web :81 2>&1; }
read -r line <&"${FORWARD[0]}"
port=${line#*127.0.0.1:}
curl -s "http://127.0.0.1:${port%% *}/"
echo "curl: $?"
grep -v Forwarding <&"${FORWARD[0]}"
kubectl port-forward pod/completes :80

# step: cp
cd "$(mktemp -d)"
seq 1 1000 >numbers
mkdir dir && echo a >dir/a && echo b >dir/b
kubectl cp numbers web:/tmp/numbers
kubectl cp dir web:/tmp/dir
kubectl exec web -- sh -c 'md5sum /tmp/numbers; ls /tmp/dir'
kubectl cp web:/tmp/numbers back 2>&1 | grep -v ^tar: | sort
md5sum back
kubectl cp web:/tmp/dir dir2 2>&1 | grep -v ^tar: | sort
ls dir2
kubectl cp web:/no/such/file other 2>/dev/null | grep -v ^tar:
kubectl cp web:/tmp/numbers -c other other

# step: debug
kubectl debug web --image=localhost/busybox:1 --image-pull-policy=Never --container=debugger --target=main -- sh -c 'echo debugged; sleep 1000'
quietly sh -c 'kubectl logs web -c debugger | grep debugged'
kubectl logs web -c debugger
kubectl exec web -c debugger -- sh -c 'tr "\0" " " </proc/1/cmdline'
kubectl get pod web -o yaml
kubectl describe pod web

# step: debug -it
terminal $'echo typed\nexit' kubectl debug -it web --image=localhost/busybox:1 --container=debugger2 -- sh
field web '.ephemeralContainerStatuses[1].state.terminated.reason' Completed
kubectl get pod web -o 'jsonpath={.status.ephemeralContainerStatuses[1].state.terminated.reason}'

# step: debug a copy
kubectl debug web --copy-to=web-copy --container=main --image=localhost/busybox:1 -- sleep 1000
kubectl wait pod/web-copy --for=jsonpath={.status.phase}=Running --timeout=60s
kubectl get pod web-copy
kubectl delete pod web-copy --now

# step: debug the node
terminal $'ls -d /host/etc\nexit' kubectl debug node/conformance -it --image=localhost/busybox:1 -- sh
quietly sh -c 'kubectl get pods | grep node-debugger.*Completed'
kubectl get pods -o name | grep node-debugger | xargs kubectl delete

# step: top
quietly sh -c 'kubectl top pod web --containers --no-headers | grep -c . | grep 3'
quietly kubectl top node conformance
kubectl top nodes | sed -E 's/[0-9]+(m|Mi|%)/N\1/g'
kubectl top pods --containers | sed -E 's/[0-9]+(m|Mi)/N\1/g' | sort
kubectl top pod missing

# step: autoscale
kubectl apply -f - <<END
apiVersion: apps/v1
kind: Deployment
metadata: {name: busy}
spec:
  replicas: 1
  selector: {matchLabels: {app: busy}}
  template:
    metadata: {labels: {app: busy}}
    spec:
      terminationGracePeriodSeconds: 0
      containers:
      - name: main
        image: localhost/busybox:1
        command: [sh, -c, "while :; do [ -e /load ] || sleep 0.5; done"]
        resources: {requests: {cpu: 20m}, limits: {cpu: 100m}}
END
kubectl autoscale deployment busy --cpu=50% --min=1 --max=3
kubectl rollout status deployment/busy --timeout=60s | tail -1
quietly kubectl top pod -l app=busy
kubectl exec deployment/busy -- touch /load
quietly sh -c '[ "$(kubectl get deployment busy -o jsonpath={.status.readyReplicas})" = 3 ]'
kubectl get hpa busy -o custom-columns=MIN:.spec.minReplicas,MAX:.spec.maxReplicas,DESIRED:.status.desiredReplicas
kubectl delete hpa,deployment busy
quietly sh -c '! kubectl get pods -l app=busy -o name | grep .'

# step: rollout
kubectl apply -f - <<END
apiVersion: apps/v1
kind: Deployment
metadata: {name: site}
spec:
  replicas: 2
  selector: {matchLabels: {app: site}}
  template:
    metadata: {labels: {app: site}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: main
        image: localhost/busybox:1
        command: [sh, -c, "trap 'exit 0' TERM; touch /ready; while :; do sleep 0.2; done"]
        readinessProbe: {exec: {command: [cat, /ready]}, periodSeconds: 1, timeoutSeconds: 10}
END
kubectl rollout status deployment/site --timeout=60s | tail -1
kubectl set env deployment/site VERSION=2
kubectl rollout status deployment/site --timeout=60s | tail -1
kubectl rollout history deployment/site
kubectl rollout restart deployment/site
kubectl rollout status deployment/site --timeout=60s | tail -1
kubectl rollout undo deployment/site
kubectl rollout status deployment/site --timeout=60s | tail -1
kubectl scale deployment/site --replicas=3
kubectl rollout status deployment/site --timeout=60s | tail -1
quietly sh -c '[ $(kubectl get pods -l app=site -o name | wc -l) = 3 ]'
kubectl get deployment,pods -l app=site
kubectl get pods -l app=site
kubectl exec deployment/site -- true
kubectl logs deployment/site

# step: cordon
kubectl cordon conformance
kubectl get node conformance
kubectl describe node conformance | grep -A1 -e ^Taints -e ^Unschedulable
kubectl run waits --image=localhost/busybox:1 --restart=Never -- true
sleep 2
kubectl get pod waits
kubectl uncordon conformance
kubectl wait pod/waits --for=jsonpath={.status.phase}=Succeeded --timeout=60s

# step: delete
kubectl delete pod crashes --force
kubectl delete pod no-image no-volume no-config bad-image never-pulls unhealthy
kubectl delete pod initialises --now
kubectl delete pod reads --grace-period=1
kubectl get pods

# step: watch
(exec kubectl get pods -w --no-headers) >"$TMPDIR/watched" &
watch=$!
sleep 1
kubectl run passes --image=localhost/busybox:1 --restart=Never -- sh -c 'sleep 1'
kubectl wait pod/passes --for=jsonpath={.status.phase}=Succeeded --timeout=60s
kubectl delete pod passes unready
sleep 1
kill $watch
grep -E '^(passes|unready) ' "$TMPDIR/watched" | awk '{print $1, $2, $3, $4}' | uniq

# step: drain
kubectl drain conformance --timeout=60s
kubectl drain conformance --force --delete-emptydir-data --timeout=60s 2>&1 | sort
kubectl get pods --field-selector=status.phase=Running
kubectl uncordon conformance
kubectl rollout status deployment/site --timeout=60s | tail -1
kubectl delete deployment site
kubectl delete pod unscheduled
quietly sh -c '! kubectl get pods -o name | grep .'

# step: events
kubectl get events -o custom-columns=TYPE:.type,FROM:.source.component,REPORTER:.reportingComponent,HOST:.source.host,REASON:.reason,OBJECT:.involvedObject.name,FIELD:.involvedObject.fieldPath,MESSAGE:.message --no-headers | grep -v -e scheduler -e controller -e autoscaler | sed -E 's/ (site|busy)-[0-9a-z]+-[0-9a-z]{5} / \1 /; s/ +/ /g' | sort -u

# step: node events
kubectl get events --field-selector involvedObject.kind=Node -o custom-columns=TYPE:.type,FROM:.source.component,REPORTER:.reportingComponent,REASON:.reason,MESSAGE:.message --no-headers | sort -u

# step: node proxy
kubectl get --raw /api/v1/nodes/conformance/proxy/healthz
kubectl get --raw /api/v1/nodes/conformance/proxy/missing
kubectl get --raw /api/v1/nodes/conformance/proxy/containerLogs/default/missing/main
kubectl get --raw /api/v1/nodes/conformance/proxy/pods | head -c 45
