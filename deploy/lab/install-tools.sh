#!/bin/sh
# Installs what a lab needs and the machine does not have: iproute2, nftables,
# util-linux (setpriv), and curl and conntrack for a person who looks around.
set -eu

missing=
need() {
	command -v "$1" >/dev/null 2>&1 || missing="$missing $2"
}
need ip iproute2
need nft nftables
need setpriv util-linux
need conntrack conntrack
need curl curl
[ -z "$missing" ] && exit 0

if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
	echo "install these packages first:$missing" >&2
	exit 1
fi
echo "installing$missing (about 20 s)"
export DEBIAN_FRONTEND=noninteractive
# shellcheck disable=SC2086 # one word per package
apt-get install -y --no-install-recommends -qq $missing >/dev/null 2>&1 || {
	apt-get update -qq
	apt-get install -y --no-install-recommends -qq $missing >/dev/null
}
