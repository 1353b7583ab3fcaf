module github.com/keelson-dev/keelson

go 1.26.0

require (
	github.com/container-storage-interface/spec v1.13.0 // volumemanager/plugins/csi: the protocol of storage drivers
	github.com/fsnotify/fsnotify v1.10.1 // podconfig/file/fsnotify: hears of changed manifests on every system
	github.com/go-logr/logr v1.4.4 // podconfig/podwatch, runtime/services, volumemanager/volumeapi: keeps what client-go logs off stderr
	github.com/google/go-containerregistry v0.22.1 // runtime/imagearchive, runtime/process/imagestore: images in archives and registries; not in a node agent built with noimages and noimagearchives
	github.com/gorilla/websocket v1.5.4-0.20250319132907-e064f32e3674 // examples: WebSockets with SPDY inside, as client-go's port-forward takes them
	github.com/klauspost/compress v1.20.1 // runtime/imagearchive: archives compressed with zstd
	github.com/moby/profiles/seccomp v0.3.0 // runtime/process: the default list of system calls, and the profiles' format
	github.com/moby/spdystream v0.5.1 // tests: clients that leave while SPDY opens its streams
	github.com/moby/sys/mountinfo v0.7.3 // volumemanager: what is mounted where
	github.com/moby/sys/user v0.5.0 // runtime/process/imagestore: names of users in an image
	github.com/opencontainers/cgroups v0.1.0 // examples: the cgroups of pods, with version 1, version 2 and systemd
	github.com/opencontainers/runtime-spec v1.3.0 // runtime/process: the types of these profiles
	github.com/prometheus/client_golang v1.25.0 // examples: metrics under the kubelet's names
	github.com/prometheus/client_model v0.6.3 // tests: metrics as Prometheus parses them
	github.com/prometheus/common v0.72.0 // examples: the text format of metrics
	github.com/robfig/cron/v3 v3.0.1 // podconfig/kinds: the schedules of CronJobs, with the rules of Kubernetes for zones and summer time
	github.com/spf13/pflag v1.0.10 // examples: the kubelet's style of flags, before and after arguments
	github.com/stretchr/testify v1.12.1 // tests
	go.uber.org/zap v1.28.0 // structured logs; a logger is always an option
	go.yaml.in/yaml/v3 v3.0.5 // podconfig/manifest: a YAML parser that tells positions, and expands no aliases
	golang.org/x/net v0.60.0 // examples: a bound of connections to a socket
	golang.org/x/sys v0.49.0 // runtime/process, podconfig/file: pidfds, subreaper and file leases
	golang.org/x/term v0.47.0 // examples: the width of the terminal
	golang.org/x/time v0.15.0 // examples: a bound of calls to a socket
	google.golang.org/grpc v1.85.0 // runtime/cri: the protocol of container runtimes
	google.golang.org/protobuf v1.36.12 // runtime/cri: the calls of containerd that CRI lacks; volumemanager/plugins/csi: a driver to test with
	k8s.io/api v0.37.2 // the pods
	k8s.io/apimachinery v0.37.2 // their metadata, quantities, equality and validation
	k8s.io/client-go v0.37.2 // podconfig/podwatch, statusmanager/statuspatch: lists, watches and patches
	k8s.io/cri-api v0.37.2 // runtime/cri: the messages of container runtimes
	k8s.io/cri-streaming v0.37.2 // examples: the protocols of exec, attach and port-forward
	k8s.io/klog/v2 v2.140.0 // examples: the messages of k8s.io/cri-streaming in the agent's log
	k8s.io/kubelet v0.37.2 // examples: the types of the Summary API, and the protocols of device plug-ins and of PodResources
	k8s.io/streaming v0.37.2 // examples: SPDY and WebSocket below them
	k8s.io/utils v0.0.0-20260626114624-be93311217bd // examples: exit codes of commands, as k8s.io/cri-streaming takes them; the checksum of device checkpoints
	sigs.k8s.io/yaml v1.6.0 // tests: manifests as their readers write them
)

require (
	github.com/beorn7/perks v1.0.1 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/coreos/go-systemd/v22 v22.6.0 // indirect
	github.com/cyphar/filepath-securejoin v0.4.1 // indirect
	github.com/davecgh/go-spew v1.1.2-0.20180830191138-d8f796af33cc // indirect
	github.com/docker/cli v29.7.2+incompatible // indirect
	github.com/docker/docker-credential-helpers v0.9.3 // indirect
	github.com/emicklei/go-restful/v3 v3.13.0 // indirect
	github.com/fxamacker/cbor/v2 v2.9.1 // indirect
	github.com/go-openapi/jsonpointer v1.0.0 // indirect
	github.com/go-openapi/jsonreference v1.0.0 // indirect
	github.com/go-openapi/swag v0.27.1 // indirect
	github.com/go-openapi/swag/cmdutils v0.27.1 // indirect
	github.com/go-openapi/swag/conv v0.27.1 // indirect
	github.com/go-openapi/swag/fileutils v0.27.1 // indirect
	github.com/go-openapi/swag/jsonutils v0.27.1 // indirect
	github.com/go-openapi/swag/loading v0.27.1 // indirect
	github.com/go-openapi/swag/mangling v0.27.1 // indirect
	github.com/go-openapi/swag/netutils v0.27.1 // indirect
	github.com/go-openapi/swag/pools v0.27.1 // indirect
	github.com/go-openapi/swag/stringutils v0.27.1 // indirect
	github.com/go-openapi/swag/typeutils v0.27.1 // indirect
	github.com/go-openapi/swag/yamlutils v0.27.1 // indirect
	github.com/godbus/dbus/v5 v5.1.0 // indirect
	github.com/google/gnostic-models v0.7.0 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/json-iterator/go v1.1.12 // indirect
	github.com/moby/sys/userns v0.1.0 // indirect
	github.com/modern-go/concurrent v0.0.0-20180306012644-bacd9c7ef1dd // indirect
	github.com/modern-go/reflect2 v1.0.3-0.20250322232337-35a7c28c31ee // indirect
	github.com/munnerz/goautoneg v0.0.0-20191010083416-a7dc8b61c822 // indirect
	github.com/opencontainers/go-digest v1.0.0 // indirect
	github.com/opencontainers/image-spec v1.1.1 // indirect
	github.com/pmezard/go-difflib v1.0.1-0.20181226105442-5d4384ee4fb2 // indirect
	github.com/prometheus/procfs v0.22.0 // indirect
	github.com/sirupsen/logrus v1.9.4 // indirect
	github.com/x448/float16 v0.8.4 // indirect
	go.uber.org/multierr v1.10.0 // indirect
	go.yaml.in/yaml/v2 v2.4.4 // indirect
	golang.org/x/oauth2 v0.37.0 // indirect
	golang.org/x/sync v0.23.0 // indirect
	golang.org/x/text v0.42.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260817212433-ac3dfec99bb1 // indirect
	gopkg.in/evanphx/json-patch.v4 v4.13.0 // indirect
	gopkg.in/inf.v0 v0.9.1 // indirect
	gotest.tools/v3 v3.5.2 // indirect
	k8s.io/kube-openapi v0.0.0-20260721132016-d427ff9ee9ad // indirect
	sigs.k8s.io/json v0.0.0-20250730193827-2d320260d730 // indirect
	sigs.k8s.io/randfill v1.0.0 // indirect
	sigs.k8s.io/structured-merge-diff/v6 v6.4.2 // indirect
)
