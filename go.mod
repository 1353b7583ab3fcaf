module github.com/keelson-dev/keelson

go 1.26.0

require (
	github.com/fsnotify/fsnotify v1.10.1 // podconfig/file/fsnotify: hears of changed manifests on every system
	github.com/spf13/pflag v1.0.10 // examples: the kubelet's style of flags, before and after arguments
	github.com/stretchr/testify v1.12.1 // tests
	go.uber.org/zap v1.28.0 // structured logs; a logger is always an option
	go.yaml.in/yaml/v2 v2.4.4 // podconfig/manifest: the YAML parser that Kubernetes uses, with positions and without alias bombs
	golang.org/x/sys v0.49.0 // runtime/process, podconfig/file: pidfds, subreaper and file leases
	golang.org/x/term v0.47.0 // examples: the width of the terminal
	google.golang.org/grpc v1.85.0 // runtime/cri: the protocol of container runtimes
	k8s.io/api v0.37.2 // the pods
	k8s.io/apimachinery v0.37.2 // their metadata, quantities, equality and validation
	k8s.io/cri-api v0.37.2 // runtime/cri: the messages of container runtimes
	sigs.k8s.io/yaml v1.6.0 // tests: manifests as their readers write them
)

require (
	github.com/fxamacker/cbor/v2 v2.9.1 // indirect
	github.com/go-logr/logr v1.4.4 // indirect
	github.com/json-iterator/go v1.1.12 // indirect
	github.com/modern-go/concurrent v0.0.0-20180306012644-bacd9c7ef1dd // indirect
	github.com/modern-go/reflect2 v1.0.3-0.20250322232337-35a7c28c31ee // indirect
	github.com/x448/float16 v0.8.4 // indirect
	go.uber.org/multierr v1.10.0 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/net v0.60.0 // indirect
	golang.org/x/text v0.42.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260817212433-ac3dfec99bb1 // indirect
	google.golang.org/protobuf v1.36.12 // indirect
	gopkg.in/inf.v0 v0.9.1 // indirect
	k8s.io/klog/v2 v2.140.0 // indirect
	k8s.io/kube-openapi v0.0.0-20260721132016-d427ff9ee9ad // indirect
	k8s.io/utils v0.0.0-20260626114624-be93311217bd // indirect
	sigs.k8s.io/json v0.0.0-20250730193827-2d320260d730 // indirect
	sigs.k8s.io/randfill v1.0.0 // indirect
	sigs.k8s.io/structured-merge-diff/v6 v6.4.2 // indirect
)
