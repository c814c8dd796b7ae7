"""Fetch the documentation that readers learn from, out of Debian's packages.

    python -m benchmarks.technical.fetch        # needs apt-get, dpkg-deb, man; about 270 MB

Nothing of it is in the benchmark of manuals: none of its packages, and no page of the same name.
Pages of `man` are written as text, one file each; pages of HTML and lists of frequent questions
stay where they were unpacked. The texts are not ours and stay out of the repository;
`packages.json` beside them lists versions, and the licences as the packages' `copyright` says.
"""

from __future__ import annotations

import gzip
import json
import multiprocessing
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

from benchmarks.manuals.fetch import MAN_PACKAGES, PAGES, missing, render

CACHE = Path("benchmarks/.cache/technical")
PACKAGES = (
    *("acl", "adduser", "alsa-utils", "anacron", "ansible-core", "apache2-doc", "apt", "apt-doc"),
    *("aria2", "at", "attr", "autoconf-doc", "automake", "bind9", "bind9-doc", "borgbackup-doc"),
    *("borgbackup", "beets-doc", "binutils-doc", "btrfs-progs", "bzip2", "cadaver", "calcurse"),
    *("chrony", "cmake-doc", "cpio", "cryptsetup-bin", "cups", "cups-client", "curl", "cvs"),
    *("debhelper", "debian-policy", "debian-reference-en", "developers-reference", "devscripts"),
    *("diffutils", "diffutils-doc", "dnsmasq-base", "dnsutils", "dos2unix", "dovecot-core"),
    *("dpkg", "dump", "duplicity", "e2fsprogs", "ed", "exim4-base", "fail2ban", "fd-find", "fdisk"),
    *("feh", "ffmpeg-doc", "flex-doc", "fluxbox", "fzf", "gdb", "gettext-doc", "ghostscript-doc"),
    *("git-buildpackage", "gnuplot-doc", "gpg", "graphviz-doc", "groff", "grub-common"),
    *("grub2-common", "guile-3.0-doc", "haproxy", "haproxy-doc", "hdparm", "htop", "i3-wm"),
    *("ifupdown", "imagemagick-6-doc", "inetutils-ftp", "iproute2", "iptables", "iputils-ping"),
    *("irssi", "isc-dhcp-client", "jq", "kmod", "lame", "ledger", "lftp", "libcurl4-doc"),
    *("libtool-doc", "links2", "logrotate", "lsof", "ltrace", "lvm2", "lxc", "lynx", "m4-doc"),
    *("mailutils-doc", "manpages", "maxima-doc", "mdadm", "mercurial", "moreutils", "mpc", "mpd"),
    *("mutt", "nano", "ncmpcpp", "ncurses-doc", "netcat-openbsd", "network-manager", "newsboat"),
    *("nfs-common", "nfs-kernel-server", "nftables", "nginx-doc", "nmap", "nvme-cli", "octave-doc"),
    *("openssl", "openvpn", "p7zip-full", "parallel", "parted", "patch", "perl-doc", "postfix"),
    *("postfix-doc", "postgresql-doc-15", "procps", "pulseaudio", "pv", "python-django-doc"),
    *("python-flask-doc", "python-jinja2-doc", "python-pandas-doc", "python-requests-doc"),
    *("python-setuptools-doc", "python-sqlalchemy-doc", "python3-pip", "r-base-core", "r-doc-html"),
    *("rcs", "recode-doc", "redis", "remind", "rename", "ripgrep", "rsyslog", "rsyslog-doc"),
    *("rxvt-unicode", "sane-utils", "sbcl-doc", "screen", "sharutils-doc", "smartmontools"),
    *("socat", "sox", "sphinx-doc", "squid", "strace", "subversion", "systemd", "taskwarrior"),
    *("tcl-doc", "tcpdump", "tmux", "todotxt-cli", "tox", "traceroute", "tree", "udev", "ufw"),
    *("units", "unzip", "usbutils", "util-linux", "valgrind", "vim", "vim-doc", "w3m"),
    *("weechat-doc", "whois", "wireguard-tools", "xdotool", "xfsprogs", "xterm", "xz-utils"),
    *("youtube-dl", "yt-dlp", "zip", "zsh", "zsh-doc", "zstd", "dc", "gnupg", "hwloc-nox"),
    *("iputils-tracepath", "lm-sensors", "memtester", "ntp", "pciutils", "powertop", "wmctrl"),
    *("sysvinit-utils", "cron-apt", "manpages-dev", "vagrant"),
)
BARRED = {*MAN_PACKAGES, *(package for package, *_rest in PAGES.values())}
PARTS = ("doc/*", "man/man[1578]/*", "vim/*doc*", "perl/*/pod/*")
_SECTIONS = "man[158]"


def main() -> None:
    """Download, unpack, and write pages of `man` as text."""
    if why := missing():
        print(f"skipped: {why}")
        return
    assert not BARRED & {*PACKAGES}, "what is asked about is not learnt from"
    download(CACHE)
    pages = list(pages_to_render(CACHE / "unpacked"))
    with multiprocessing.get_context("fork").Pool(2) as pool:
        written = sum(pool.imap_unordered(_write_page, pages, chunksize=4))
    print(f"{written} pages of man")


def download(cache: Path) -> None:
    """Download and unpack what documents, and note versions and licences."""
    debs, unpacked = cache / "packages", cache / "unpacked"
    for folder in (debs, unpacked):
        folder.mkdir(parents=True, exist_ok=True)
    if len(list(debs.glob("*.deb"))) < len(PACKAGES):
        subprocess.run(["apt-get", "download", *PACKAGES], cwd=debs, check=True)
    found = {}
    for deb in sorted(debs.glob("*.deb")):
        shown = subprocess.run(
            ["dpkg-deb", "-f", str(deb), "Package", "Version"], capture_output=True, check=True
        )
        fields = dict(line.split(": ", 1) for line in shown.stdout.decode().splitlines())
        with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", str(deb)], stdout=-1) as tar:
            wanted = [f"./usr/share/{part}" for part in PARTS]
            command = ["tar", "-x", "-C", str(unpacked), "--wildcards", *wanted]
            subprocess.run(command, stdin=tar.stdout, stderr=-3, check=False)  # not all are there
        name = fields["Package"]
        licences = licences_of(unpacked / "usr/share/doc" / name / "copyright")
        found[name] = {"version": fields["Version"], "licences": licences}
    (cache / "packages.json").write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")


def licences_of(path: Path) -> list[str]:
    """List the licences that a machine-readable `copyright` names; none where it is not."""
    if not path.exists():
        return []
    text = path.read_text(encoding="utf-8", errors="replace")
    return sorted({*re.findall(r"^License: *(\S[^\n]{0,60})$", text, re.MULTILINE)})


def pages_to_render(unpacked: Path) -> Iterator[Path]:
    """List pages of `man` for users and administrators, none that the benchmark has."""
    barred = {path.name.removesuffix(".txt") for path in _benchmark_pages()}
    for path in sorted((unpacked / "usr/share/man").glob(f"{_SECTIONS}/*.gz")):
        name = path.name.removesuffix(".gz")
        is_alias = path.is_symlink() or gzip.decompress(path.read_bytes()).startswith(b".so ")
        if not is_alias and name not in barred:
            yield path


def _benchmark_pages() -> Iterator[Path]:
    from benchmarks.manuals import fetch

    return (fetch.CACHE / "corpus" / "man").glob("*.txt")


def _write_page(path: Path) -> bool:
    """Write one page as text, unless it is there."""
    out = CACHE / "man" / f"{path.name.removesuffix('.gz')}.txt"
    out.parent.mkdir(parents=True, exist_ok=True)
    if not out.exists():
        try:
            out.write_text(render(path), encoding="utf-8")
        except (subprocess.CalledProcessError, UnicodeDecodeError):
            return False
    return True


if __name__ == "__main__":
    main()
