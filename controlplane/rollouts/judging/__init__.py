"""What a canary or a wave is judged by: what it is fed, how evidence is weighed, what is told. All pure but `arms`."""
