// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io/fs"
	neturl "net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/term"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/updates"
	"github.com/keelson-dev/keelson/examples/nodeagent/nodestatus/host"
	"github.com/keelson-dev/keelson/imagegc"
	"github.com/keelson-dev/keelson/podconfig/url"
)

// errAnswered is returned after --help or --version has been printed.
var errAnswered = errors.New("answered")

// flags are the parsed flags. Names are the kubelet's where the meaning is equal.
type flags struct {
	manifests string // file or folder, or empty

	updatePolicy string // of pods without an annotation
	archives     archiveFlags
	images       imageFlags
	kinds        kindFlags

	manifestURL string
	urlHeaders  urlHeaders
	urlPeriod   time.Duration
	kubeconfig  string
	register    bool              // with kubeconfig
	objects     string            // folder, or empty
	csiSockets  map[string]string // socket path by driver name

	endpoint  string
	root      string
	logs      string
	node      string
	addresses addressFlags
	version   string // of Kubernetes, as this node tells it
	address   string
	hostNames []string // in addition to node and address
	port      int
	server    serverFlags
	local     localFlags
	identity  identityFlags
	status    statusFlags
	profiling bool
	keepPods  bool
	shutdown  shutdownFlags
	lenient   bool
	confine   bool
	network   podNetwork
	starts    int
	restarts  time.Duration // longest pause between restarts of a container
	imageHigh int
	imageLow  int
	imageMin  time.Duration
	imageMax  time.Duration
	imageDry  bool
	imageWait time.Duration
	pause     string
	pulls     pullFlags
	verify    verifyFlags
	dns       dnsFlags
	cri       criFlags
	logFiles  logFlags
	logLinks  linkFlags
	authFile  string
	plugins   pluginFlags
	offer     offer
	eviction  evictionFlags
	cgroups   cgroupFlags
	devices   deviceFlags
	once      once
	verbosity int
	config    configFlags
	gates     gateFlags
	host      hostFlags

	values map[string]string // of all flags that have no secrets
}

// maxRestartPeriod is the default and the maximum of --max-container-restart-period, as in the
// kubelet (KEP-4603).
const maxRestartPeriod = 5 * time.Minute

// processEndpoint selects the process runtime instead of a container runtime.
const processEndpoint = "process"

const usage = `Usage: nodeagent [PATH] [flags]

Runs the pods whose manifests are in PATH, a folder or a file, and keeps them
running. If you add, edit or remove a manifest, the pods follow. Ctrl-C stops them.
Pods may also come from a URL and from an API server. The agent keeps the last pods
of these sources in ROOT-DIR, and starts them even without a connection.

nodeagent ps, describe, logs, exec, cp, restart, apply, rm, events, top, images,
history and rollback talk to a running agent; see their --help.

Flags:
`

// help returns the list of flags, wrapped to the terminal's width.
func help(set *pflag.FlagSet) string {
	set.VisitAll(func(f *pflag.Flag) {
		if f.DefValue == "[]" && strings.HasPrefix(f.Value.Type(), "stringTo") { // an empty default need not be shown
			f.DefValue = ""
		}
	})
	width, _, err := term.GetSize(int(os.Stdout.Fd()))
	switch {
	case err != nil:
		width = 0 // no limit
	case width < 140:
		width = min(width, 90) // narrow enough to print descriptions below the flags
	}
	return set.FlagUsagesWrapped(width)
}

func parseFlags(args []string) (flags, error) {
	var f flags
	set := pflag.NewFlagSet("nodeagent", pflag.ContinueOnError)
	set.SortFlags = false
	set.StringVar(&f.manifests, "pod-manifest-path", "", "folder or file with pod manifests; same as PATH")
	set.StringVar(&f.updatePolicy, "update-policy", string(updates.Transactional), "update of pods with a changed manifest and restartPolicy Always: Transactional fetches the images first, and starts the old version again if the new version fails; Replace stops the pod and starts the new version, as the kubelet does (default with --kubeconfig)")
	set.StringVar(&f.manifestURL, "manifest-url", "", "URL of a pod manifest, or of a list of them")
	set.Var(&f.urlHeaders, "manifest-url-header", "headers for --manifest-url, as `name:value,...`; visible to all users of this machine in the list of processes")
	set.DurationVar(&f.urlPeriod, "http-check-frequency", url.DefaultPeriod, "interval of requests to --manifest-url")
	set.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig of an API server: pods bound to this node are run, statuses and mirror pods of static pods are written")
	set.BoolVar(&f.register, "register-node", true, "with --kubeconfig: create the Node object of this node, and maintain its status and lease")
	set.StringVar(&f.objects, "objects-path", "", "folder with manifests of ConfigMaps and Secrets for pods; changes reach the volumes at once")
	f.kinds.register(set)
	set.StringToStringVar(&f.csiSockets, "csi-sockets", nil, "sockets of the CSI drivers whose volumes pods may use, as `driver=unix:///path,...`")
	set.StringVar(&f.endpoint, "container-runtime-endpoint", processEndpoint, "backend of the containers: \"process\" runs plain processes, unix:///path is the socket of a container runtime (CRI)")
	set.StringVar(&f.root, "root-dir", "", "folder for volumes and records (default "+defaultRoot()+")")
	set.StringVar(&f.logs, "pod-logs-dir", "", "folder for the containers' logs (default ROOT-DIR/logs)")
	set.StringVar(&f.node, "hostname-override", "", "name of this node (default: the host's name)")
	f.addresses.register(set)
	set.StringVar(&f.version, "kubelet-version", host.Behaviour, "version of Kubernetes that this node reports: by default the version of the kubelet with the same behaviour; set an older version for an older API server")
	set.StringVar(&f.address, "address", "127.0.0.1", "address of --port and --read-only-port; --read-only-port has no authentication: do not open it to a network")
	set.StringSliceVar(&f.hostNames, "allowed-hosts", nil, "host names that requests to --read-only-port may name, besides localhost, --hostname-override and addresses, as `name,...`")
	set.IntVar(&f.port, "read-only-port", 10255, "port to serve /healthz, /pods, /metrics and /stats/summary on; 0 = do not serve (default 0 with --kubeconfig)")
	f.server.register(set)
	f.local.register(set)
	f.identity.register(set)
	f.status.register(set)
	set.BoolVar(&f.profiling, "profiling", false, "serve profiles on /debug/pprof, of --port or, without any server of --port, of --read-only-port")
	set.BoolVar(&f.keepPods, "keep-pods", false, "leave the pods running when the agent ends; the next agent adopts the pods (default true with a container runtime); with --shutdown-grace-period and the like, pods are stopped when systemd shuts the machine down")
	f.shutdown.register(set)
	f.dns.register(set)
	f.cri.register(set)
	f.logFiles.register(set)
	f.logLinks.register(set)
	set.BoolVar(&f.confine, "confine", false, "put every container of the process backend behind all walls (docs/process-backend.md)")
	set.BoolVar(&f.lenient, "lenient", false, "ignore fields of a pod that the process backend cannot honour, instead of refusing the pod")
	set.IntVar(&f.starts, "max-concurrent-starts", 0, "how many sandboxes and containers are made at the same time (default four per core)")
	set.DurationVar(&f.restarts, "max-container-restart-period", maxRestartPeriod, "longest back-off of a container that fails again and again, from 1s on")
	set.StringVar(&f.authFile, "registry-auth-file", "", "with a container runtime or --images: docker config.json with the node's own registry credentials, read at each pull and tried after the pod's credentials (default ROOT-DIR/config.json, if the file exists)")
	f.plugins.register(set)
	set.IntVar(&f.imageHigh, "image-gc-high-threshold", imagegc.DefaultHighPercent, "with a container runtime or --images: usage of the image file system, in percent, at which the removal of unused images begins; 100 = never")
	set.IntVar(&f.imageLow, "image-gc-low-threshold", imagegc.DefaultLowPercent, "usage of the image file system, in percent, at which the removal of unused images ends")
	set.DurationVar(&f.imageWait, "image-gc-period", imagegc.DefaultInterval, "interval at which the usage of the image file system is measured")
	set.DurationVar(&f.imageMin, "minimum-image-ttl-duration", imagegc.DefaultMinAge, "how old an image must be to be removed; 0 = any age")
	set.DurationVar(&f.imageMax, "maximum-image-ttl-duration", 0, "time after which an unused image is removed even if the disk is empty; 0 = never")
	set.BoolVar(&f.imageDry, "image-gc-dry-run", false, "only log the images that would be removed")
	set.StringVar(&f.pause, "pod-infra-container-image", "", "the container runtime's sandbox image, which is never removed (default every image named pause)")
	f.pulls.register(set)
	f.verify.register(set)
	f.archives.register(set)
	f.images.register(set)
	f.network.register(set)
	f.offer.flags(set)
	f.eviction.register(set)
	f.cgroups.register(set)
	f.devices.register(set)
	f.once.flags(set)
	f.config.register(set)
	f.gates.register(set)
	f.host.register(set)
	set.IntVarP(&f.verbosity, "v", "v", 0, "log verbosity; 1 and more also log details")
	asked := set.Bool("version", false, "print this program's version, and --kubelet-version")
	set.Usage = func() { fmt.Print(usage, help(set)) } // it was asked for
	if err := set.Parse(args); err != nil {
		if errors.Is(err, pflag.ErrHelp) {
			return f, errAnswered
		}
		return f, flagError(set, err)
	}
	if err := f.config.apply(set); err != nil {
		return f, err
	}
	var err error
	if f.version, err = host.Version(f.version); err != nil {
		return f, fmt.Errorf("--kubelet-version: %w", err)
	}
	if *asked {
		fmt.Println(versions(os.Args[0], f.version))
		return f, errAnswered
	}
	if !set.Changed("keep-pods") {
		f.keepPods = f.endpoint != processEndpoint && !f.shutdown.asked()
	}
	if !set.Changed("update-policy") && f.kubeconfig != "" {
		f.updatePolicy = string(updates.Replace) // a node of a cluster behaves as the kubelet
	}
	if err := errors.Join(f.images.complete(&f, set), f.network.complete(&f, set)); err != nil {
		return f, err
	}
	if err := f.complete(set.Args()); err != nil {
		return f, err
	}
	if err := f.once.complete(&f, set); err != nil {
		return f, err
	}
	if err := f.cgroups.complete(&f, set); err != nil {
		return f, err
	}
	if err := errors.Join(f.pulls.complete(set), f.verify.check(), f.archives.complete(f.endpoint, f.images.on), f.server.complete(&f, set), f.local.complete(&f), f.identity.complete(&f), f.status.complete(set), f.kinds.complete(), f.eviction.complete(&f, set), f.gates.complete(f.root), f.host.complete(&f.server)); err != nil {
		return f, err
	}
	f.values = map[string]string{}
	set.VisitAll(func(flag *pflag.Flag) {
		if !strings.HasPrefix(flag.Name, "manifest-url") { // which may have a password
			f.values[flag.Name] = flag.Value.String()
		}
	})
	return f, errors.Join(f.devices.complete(&f, set), f.offer.complete(&f, set))
}

// complete sets defaults and validates the flags.
func (f *flags) complete(args []string) error {
	switch {
	case len(args) > 1:
		return fmt.Errorf("one PATH at most, got %d: %s (see --help)", len(args), strings.Join(args, " "))
	case len(args) == 1 && f.manifests != "" && f.manifests != args[0]:
		return fmt.Errorf("PATH is %s and --pod-manifest-path is %s: give one of them", args[0], f.manifests)
	case len(args) == 1:
		f.manifests = args[0]
	case f.manifests == "" && f.manifestURL == "" && f.kubeconfig == "":
		return errors.New("which manifests? Give a folder or file, e.g. examples/manifests, --manifest-url or --kubeconfig (see --help)")
	}
	if f.urlPeriod <= 0 {
		return fmt.Errorf("--http-check-frequency %s: want more than 0", f.urlPeriod)
	}
	if f.manifestURL == "" && len(f.urlHeaders) > 0 {
		return errors.New("--manifest-url-header without --manifest-url")
	}
	if _, err := f.urlHeaders.header(); err != nil {
		return err
	}
	if f.endpoint != processEndpoint && !strings.HasPrefix(f.endpoint, "unix://") && !filepath.IsAbs(f.endpoint) {
		return fmt.Errorf("--container-runtime-endpoint %q: want \"process\" or unix:///path/to/socket", f.endpoint)
	}
	for driver, socket := range f.csiSockets {
		path := strings.TrimPrefix(socket, "unix://")
		if len(validation.IsDNS1123Subdomain(strings.ToLower(driver))) > 0 || !filepath.IsAbs(path) {
			return fmt.Errorf("--csi-sockets %s=%s: want driver=unix:///path/to/socket, with the driver's name as it calls itself", driver, socket)
		}
		f.csiSockets[driver] = path
	}
	if err := errors.Join(f.shutdown.check(), f.dns.check(f.endpoint), f.addresses.complete(), f.cri.check(f.endpoint), f.logFiles.check(), f.plugins.check(f.pullsImages())); err != nil {
		return err
	}
	if f.keepPods && f.shutdown.stop != 0 {
		return errors.New("--keep-pods and --stop-timeout: give one of them")
	}
	if f.imageHigh < 1 || f.imageHigh > 100 || f.imageLow < 1 || f.imageLow > f.imageHigh {
		return fmt.Errorf("--image-gc-low-threshold %d, --image-gc-high-threshold %d: want percents, the low one not above the high one", f.imageLow, f.imageHigh)
	}
	if f.imageWait <= 0 || f.imageMin < 0 || f.imageMax < 0 {
		return fmt.Errorf("--image-gc-period %s, --minimum-image-ttl-duration %s, --maximum-image-ttl-duration %s: want more than 0, and 0 or more", f.imageWait, f.imageMin, f.imageMax)
	}
	if f.restarts < time.Second || f.restarts > maxRestartPeriod {
		return fmt.Errorf("--max-container-restart-period %s: want 1s to %s", f.restarts, maxRestartPeriod)
	}
	if f.starts < 0 {
		return fmt.Errorf("--max-concurrent-starts %d: want 0 or more", f.starts)
	}
	if f.port < 0 || f.port > 65535 {
		return fmt.Errorf("--read-only-port %d: want 0 to 65535", f.port)
	}
	if f.manifests != "" {
		if _, err := os.Stat(f.manifests); errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s does not exist", f.manifests)
		} else if err != nil {
			return err
		}
	}
	if info, err := os.Stat(f.objects); f.objects != "" && (err != nil || !info.IsDir()) {
		return fmt.Errorf("--objects-path %s: want a folder", f.objects)
	}
	if f.root == "" {
		f.root = defaultRoot()
	}
	var err error
	if f.root, err = filepath.Abs(f.root); err != nil {
		return fmt.Errorf("--root-dir: %w", err)
	}
	if f.logs == "" {
		f.logs = filepath.Join(f.root, "logs")
	}
	if f.logs, err = filepath.Abs(f.logs); err != nil {
		return fmt.Errorf("--pod-logs-dir: %w", err)
	}
	if err := f.logLinks.complete(os.Args[0], f.logs); err != nil {
		return err
	}
	if err := f.findAuth(); err != nil {
		return err
	}
	if f.manifests != "" {
		if f.manifests, err = filepath.Abs(f.manifests); err != nil {
			return fmt.Errorf("PATH: %w", err)
		}
	}
	if f.node == "" {
		if f.node, err = os.Hostname(); err != nil {
			return fmt.Errorf("name of this node: %w (set --hostname-override)", err)
		}
	}
	f.node = strings.ToLower(f.node)
	if wrong := validation.IsDNS1123Subdomain(f.node); len(wrong) > 0 {
		return fmt.Errorf("--hostname-override %q is no node name: %s", f.node, wrong[0])
	}
	return nil
}

// pullsImages reports whether containers have images.
func (f *flags) pullsImages() bool { return f.endpoint != processEndpoint || f.images.on }

// findAuth sets the path of the node's registry credentials. A file given by flag must exist.
func (f *flags) findAuth() error {
	switch {
	case !f.pullsImages() && f.authFile != "":
		return errors.New("--registry-auth-file is for a container runtime or --images: other processes have no images")
	case !f.pullsImages():
		return nil
	case f.authFile == "":
		f.authFile = filepath.Join(f.root, "config.json") // the kubelet's default
		return nil
	}
	info, err := os.Stat(f.authFile)
	switch {
	case err != nil:
		return fmt.Errorf("--registry-auth-file: %w", err)
	case !info.Mode().IsRegular():
		return fmt.Errorf("--registry-auth-file %s: want a file", f.authFile)
	}
	f.authFile, err = filepath.Abs(f.authFile)
	return err
}

// defaultRoot returns a folder that is writable for the user and survives a reboot. A program of the
// name kubelet has the kubelet's folder, so that it can take the kubelet's place.
func defaultRoot() string {
	switch {
	case isKubelet(os.Args[0]):
		return "/var/lib/kubelet"
	case os.Geteuid() == 0:
		return "/var/lib/keelson"
	}
	if state := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(state) {
		return filepath.Join(state, "keelson")
	}
	if home, err := os.UserHomeDir(); err == nil {
		return filepath.Join(home, ".local", "state", "keelson")
	}
	return filepath.Join(os.TempDir(), fmt.Sprintf("keelson-%d", os.Getuid()))
}

// names returns the accepted Host headers.
func (f *flags) names() []string { return append([]string{f.node, f.address}, f.hostNames...) }

// origins returns a description of the sources, without the secret parts of a URL.
func (f *flags) origins() string {
	var all []string
	if f.manifests != "" {
		all = append(all, f.manifests)
	}
	if u, err := neturl.Parse(f.manifestURL); f.manifestURL != "" && err == nil {
		all = append(all, u.Scheme+"://"+u.Host+u.Path)
	}
	if f.kubeconfig != "" {
		all = append(all, "the API server of "+f.kubeconfig)
	}
	return strings.Join(all, ", ")
}
